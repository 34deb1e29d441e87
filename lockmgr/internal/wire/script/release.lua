-- release.lua gives a lock up and tells those who wait.
--
-- KEYS[1]   lock
-- KEYS[2]   channel
-- ARGV[1..] every owner of this manager that the record may carry
--
-- Returns nil         the record carries none of these owners
--         integer     released; how many subscribers the message reached
--         bulk string released, but the message could not be published: why
--
-- Safe to repeat: the second run returns nil. Deleting comes first: it works
-- when the server is out of memory, and publishing can't undo it.
for i = 1, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then
    redis.call('DEL', KEYS[1])
    local told = redis.pcall('PUBLISH', KEYS[2], '0')
    if type(told) == 'table' then
      return told.err
    end
    return told
  end
end
return false
