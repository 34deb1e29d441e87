-- permits_return.lua gives permits back by their IDs: all of them, or none if one is not
-- taken. It begins with line.lua and permits.lua.
--
-- KEYS[1]   the counter of free permits
-- KEYS[2]   the permits that are taken
-- ARGV[1]   channel
-- ARGV[2..3] the keys of the line
-- ARGV[4..] the IDs, in hexadecimal digits
--
-- Returns 1, or 0 if one of them is not taken or has expired.
--
-- An ID is 16 bytes. Old clients write its hexadecimal digits instead.
local there = redis.call('GET', KEYS[1])
if there and not counts(there) then
  return {err = 'WRONGTYPE the key does not count permits'}
end
local members, scores, known = {}, {}, {}
for i = 4, #ARGV do
  local raw = string.gsub(ARGV[i], '..', function(digits) return string.char(tonumber(digits, 16)) end)
  local member, score = raw, redis.call('ZSCORE', KEYS[2], raw)
  if not score then
    member, score = ARGV[i], redis.call('ZSCORE', KEYS[2], ARGV[i])
  end
  if not score or tonumber(score) <= now or known[member] then
    return 0
  end
  known[member] = true
  members[i - 3], scores[2 * i - 7], scores[2 * i - 6] = member, score, member
end
redis.call('ZREM', KEYS[2], unpack(members))
if not there then
  return 1
end
local free = redis.pcall('INCRBY', KEYS[1], #members)
if type(free) == 'table' then
  redis.pcall('ZADD', KEYS[2], unpack(scores))
  return free
end
if free > 0 then
  local served = pcall(tell, {channel = ARGV[1], list = ARGV[2], wants = ARGV[3]}, free)
  redis.pcall('PUBLISH', ARGV[1], string.format('%s%.0f', served and '0' or '00', free))
end
return 1
