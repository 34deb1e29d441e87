-- release.lua gives a lock up and tells those who wait.
--
-- KEYS[1]   lock
-- ARGV[1..] every owner of this manager that the record may carry, maybe none
-- ARGV[n]   the last: channel
--
-- Returns nil         the record carries none of these owners
--         integer     released; how many subscribers the message reached
--         bulk string released, but the message could not be published: why
--         array       released, and a manager of the line was told: see line.lua. The number or the
--                     text as above
--
-- Safe to repeat: the second run returns nil. Deleting comes first: it works
-- when the server is out of memory, and publishing can't undo it. The line is served also if the record
-- has ended with its lease: no message tells of that.
--
-- The channel is no key: while a slot of a cluster is moved, a server runs no script
-- that has some of its keys and not the others.
local function freed(key, channel, owner, gone)
  return theLine().freed(key, channel, string.match(owner, '^(.*):%d+$'), gone)
end

local key, channel = KEYS[1], ARGV[#ARGV]
local gone = #ARGV > 1 and redis.call('HDEL', key, unpack(ARGV, 1, #ARGV - 1)) > 0
local tag = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
local message = '00'
if redis.pcall('EXISTS', key, tag .. ':line') ~= 0 then -- or an error: the line may be at the other master
  local ok, out = pcall(freed, key, channel, ARGV[1], gone)
  if ok then
    return out
  end
  message = '0' -- the line was not served
end
if not gone then
  return false
end
local told = redis.pcall('PUBLISH', channel, message)
return type(told) == 'table' and told.err or told
