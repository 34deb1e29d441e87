-- readwrite_release.lua gives up this manager's entry of a read-write lock. If
-- nobody else reads, it tells those who wait.
--
-- KEYS[1]   lock
-- ARGV[1..] every holder of this manager that the record may carry
-- and the last two: the prefix of the readers' keys, and the channel
--
-- Returns nil         the record carries none of these holders
--         integer     released; how many subscribers the message reached
--         bulk string released, but the message could not be published: why
--         array       released, and others still read, so there was no message;
--                     the number of subscribers, or -1 when the server would not
--                     say
--
-- Safe to repeat: the second run returns nil. A reader whose own key has expired
-- is removed, and the record lives no longer than the last of the readers. All is read
-- before anything is written: of readers' keys that are missing see readwrite_acquire.lua.
local key, prefix, channel, holders = KEYS[1], ARGV[#ARGV - 1], ARGV[#ARGV], #ARGV - 2
local function timeout(holder, i)
  return prefix .. ':' .. holder .. ':rwlock_timeout:' .. i
end
local function life(own)
  local ttl = redis.call('PTTL', own)
  if ttl == -2 then
    redis.call('EXISTS', key, own)
  end
  return ttl
end
if redis.call('HEXISTS', key, 'mode') == 0 then
  return false
end
local mine, released, wrote = {mode = true}, false, false
for i = 1, holders do
  mine[ARGV[i]], mine[ARGV[i] .. ':write'] = true, true
end
local fields = redis.call('HGETALL', key)
for f = 1, #fields, 2 do
  if mine[fields[f]] and fields[f] ~= 'mode' then
    released = true
    wrote = wrote or string.sub(fields[f], -6) == ':write'
  end
end
if not released then
  return false
end
local left, longest, before, dead = false, 0, redis.call('PTTL', key), {}
for f = 1, #fields, 2 do
  if mine[fields[f]] then
    -- It goes.
  elseif string.sub(fields[f], -6) == ':write' then
    left, longest = true, math.max(longest, before)
  else
    local longer = -2
    for i = 1, tonumber(fields[f + 1]) or 0 do
      longer = math.max(longer, life(timeout(fields[f], i)))
    end
    if longer >= 0 then
      left, longest = true, math.max(longest, longer)
    else
      dead[#dead + 1] = fields[f]
    end
  end
end
for i = 1, holders do
  if redis.call('HDEL', key, ARGV[i]) == 1 then
    redis.pcall('DEL', timeout(ARGV[i], 1)) -- it may be at the other master
  end
  redis.call('HDEL', key, ARGV[i] .. ':write')
end
if left then
  for i = 1, #dead do
    redis.call('HDEL', key, dead[i])
  end
  if wrote then
    redis.call('HSET', key, 'mode', 'read')
  end
  redis.call('PEXPIRE', key, math.max(longest, 1))
  -- Those who wait have been told when the record ends. If it ends much earlier
  -- now, they are told to look again.
  if not wrote and longest * 2 >= before then
    local waiting = redis.pcall('PUBSUB', 'NUMSUB', channel)
    return {waiting.err and -1 or waiting[2]}
  end
else
  redis.call('DEL', key)
  if not wrote then
    redis.pcall('PEXPIRE', prefix .. ':writer', 100) -- see readwrite_acquire.lua
  end
end
local told = redis.pcall('PUBLISH', channel, wrote and '1' or '0')
if type(told) == 'table' then
  return told.err
end
return told
