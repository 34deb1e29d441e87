-- release.lua gives a lock up and tells those who wait.
--
-- KEYS[1]   lock
-- ARGV[1..] every owner of this manager that the record may carry
-- ARGV[n]   the last: channel
--
-- Returns nil         the record carries none of these owners
--         integer     released; how many subscribers the message reached
--         bulk string released, but the message could not be published: why
--
-- Safe to repeat: the second run returns nil. Deleting comes first: it works
-- when the server is out of memory, and publishing can't undo it.
--
-- The channel is no key: while a slot of a cluster is moved, a server runs no script
-- that has some of its keys and not the others.
for i = 1, #ARGV - 1 do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then
    redis.call('DEL', KEYS[1])
    local told = redis.pcall('PUBLISH', ARGV[#ARGV], '0')
    if type(told) == 'table' then
      return told.err
    end
    return told
  end
end
return false
