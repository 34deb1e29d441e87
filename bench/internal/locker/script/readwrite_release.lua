-- readwrite_release.lua gives up this manager's entry of a read-write lock. If
-- nobody else reads, it tells those who wait.
--
-- KEYS[1]   lock
-- KEYS[2]   channel
-- KEYS[3]   prefix of the readers' keys
-- ARGV[1..] every holder of this manager that the record may carry
--
-- Returns nil         the record carries none of these holders
--         integer     released; how many subscribers the message reached
--         bulk string released, but the message could not be published: why
--         array       released, and others still read, so there was no message;
--                     the number of subscribers, or -1 when the server would not
--                     say
--
-- Safe to repeat: the second run returns nil. A reader whose own key has expired
-- is removed, and the record lives no longer than the last of the readers.
local key = KEYS[1]
local function timeout(holder, i)
  return KEYS[3] .. ':' .. holder .. ':rwlock_timeout:' .. i
end
if redis.call('HEXISTS', key, 'mode') == 0 then
  return false
end
local released, wrote = false, false
for i = 1, #ARGV do
  if redis.call('HDEL', key, ARGV[i]) == 1 then
    released = true
    redis.call('DEL', timeout(ARGV[i], 1))
  end
  if redis.call('HDEL', key, ARGV[i] .. ':write') == 1 then
    released, wrote = true, true
  end
end
if not released then
  return false
end
local left, longest, before = false, 0, redis.call('PTTL', key)
local fields = redis.call('HGETALL', key)
for f = 1, #fields, 2 do
  local life = -2
  for i = 1, tonumber(fields[f + 1]) or 0 do
    life = math.max(life, redis.call('PTTL', timeout(fields[f], i)))
  end
  if string.sub(fields[f], -6) == ':write' then
    left, longest = true, math.max(longest, redis.call('PTTL', key))
  elseif life >= 0 then
    left, longest = true, math.max(longest, life)
  elseif fields[f] ~= 'mode' then
    redis.call('HDEL', key, fields[f])
  end
end
if left then
  if wrote then
    redis.call('HSET', key, 'mode', 'read')
  end
  redis.call('PEXPIRE', key, math.max(longest, 1))
  -- Those who wait have been told when the record ends. If it ends much earlier
  -- now, they are told to look again.
  if not wrote and longest * 2 >= before then
    local waiting = redis.pcall('PUBSUB', 'NUMSUB', KEYS[2])
    return {waiting.err and -1 or waiting[2]}
  end
else
  redis.call('DEL', key)
end
local told = redis.pcall('PUBLISH', KEYS[2], wrote and '1' or '0')
if type(told) == 'table' then
  return told.err
end
return told
