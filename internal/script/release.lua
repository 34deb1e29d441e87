-- release.lua gives a lock up and tells those who wait.
--
-- KEYS[1]   lock
-- ARGV[1]   "manager id" of a manager that leaves the line with this script; or what the manager wants of the
--           line, if it joins the line behind others; or empty: see line.lua
-- ARGV[2..] every owner of this manager that the record may carry, maybe none
-- ARGV[n]   the last: channel
--
-- Returns nil         the record carries none of these owners
--         integer     released; how many clients subscribe that stand in no line
--         bulk string released, but the message could not be published: why
--         array       released, and the first manager of the line was granted the lock, or told: see
--                     line.lua. The number or the text as above, and 1, or 2 if this manager has joined
--                     the line. After a grant there is no message
--
-- Safe to repeat: the second run returns nil. Deleting comes first: it works
-- when the server is out of memory, and publishing can't undo it. The line is served also if the record
-- has ended with its lease: no message tells of that.
--
-- The channel is no key: while a slot of a cluster is moved, a server runs no script
-- that has some of its keys and not the others.
local key, channel, message = KEYS[1], ARGV[#ARGV], '00'
local leaves = ARGV[1] ~= '' and string.find(ARGV[1], '^%S+ %d+$')
local gone = #ARGV > 2 and redis.pcall('HDEL', key, unpack(ARGV, 2, #ARGV - 1)) or 0
if leaves or redis.pcall('EXISTS', key, beside(key, 'line')) ~= 0 then -- or an error: the line may be at the other master
  local line = theLine()
  if leaves then
    pcall(line.depart, key, ARGV[1])
  end
  if gone == 0 then
    pcall(line.serve, key)
  elseif type(gone) == 'number' then
    local ok, out = pcall(line.released, key, channel, ARGV[2], ARGV[1])
    if ok then
      return out
    end
    message = '000' -- the line was not served
  end
end
if type(gone) == 'table' then
  return gone
end
return gone > 0 and publish(channel, message)
