-- force.lua removes a lock, if it is still held as it was when somebody looked,
-- and tells those who wait, and the manager of the holder.
--
-- KEYS[1]   lock
-- KEYS[2]   queue            only of a fair lock: its first member is told
-- ARGV[1]   the message
-- ARGV[2]   channel
-- ARGV[3..] all fields that the record had, or some if it has more than 1,000
--
-- Returns 1 if the record was removed, 0 if there is none, -1 if it has other
-- fields now.
--
-- Safe to repeat: a copy that runs late finds another holder's fields.
local size = redis.call('HLEN', KEYS[1])
if size == 0 then
  return 0
end
if size <= 1000 and size ~= #ARGV - 2 then
  return -1
end
for i = 3, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 0 then
    return -1
  end
end
-- UNLINK frees a large record without blocking the server.
local unlinked = size > 1000 and redis.pcall('UNLINK', KEYS[1])
if unlinked ~= 1 then
  redis.call('DEL', KEYS[1])
end
local channel = ARGV[2]
local first = KEYS[2] and redis.pcall('LINDEX', KEYS[2], 0)
if type(first) == 'string' and #first <= 256 then -- no ID is longer
  -- One of this library listens on the channel of its manager: see fair.lua.
  channel = channel .. ':' .. (string.match(first, '^(.*):%d+:f$') or first)
end
redis.pcall('PUBLISH', channel, ARGV[1])
local manager = KEYS[2] and string.match(ARGV[3], '^(.*):%d+:f$')
if manager and channel ~= ARGV[2] .. ':' .. manager then
  redis.pcall('PUBLISH', ARGV[2] .. ':' .. manager, ARGV[1])
end
return 1
