-- readwrite_release.lua gives up this manager's entry of a read-write lock, and tells those who wait.
--
-- KEYS[1]   lock
-- ARGV[1]   "manager id" of a manager that leaves the line with this script; or what the manager wants of the
--           line, if it joins the line behind others, for a writer; or "force": somebody else removes the holders,
--           and their managers are told; or empty: see line.lua
-- ARGV[2]   the prefix of the readers' keys
-- ARGV[3..] every holder of this manager that the record may carry, maybe none
-- ARGV[n]   the last: channel
--
-- Returns nil         the record carries none of these holders
--         integer     released; how many clients subscribe that stand in no line
--         bulk string released, but the message could not be published: why
--         array       released. One element: others still read, so there was no message; how many clients
--                     subscribe that stand in no line, or -1 when the server would not say. After "force" there
--                     was a message, and the element is the number or the text as above. Two elements:
--                     the number or the text as above, and 1: a manager of the line was told; or 2: this manager
--                     has joined the line, too
--
-- Safe to repeat: the second run returns nil. A reader whose own key has expired
-- is removed, and the record lives no longer than the last of the readers. All is read
-- before anything is written: of readers' keys that are missing see readwrite_acquire.lua. The line is
-- served also if the record has ended with its lease: no message tells of that.
local key, prefix, channel, holders = KEYS[1], ARGV[2], ARGV[#ARGV], #ARGV - 1
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
local line = redis.pcall('EXISTS', beside(key, 'line')) ~= 0 and theLine() -- or an error: it may be at the other master

if line and string.find(ARGV[1], '^%S+ %d+$') then
  pcall(line.depart, key, ARGV[1]) -- before what fails if the key holds no lock
end

local mode = redis.call('HGET', key, 'mode')
local mine, released, wrote = {mode = true}, false, false
for i = 3, holders do
  mine[ARGV[i]], mine[ARGV[i] .. ':write'] = true, true
end
local fields = mode and redis.call('HGETALL', key) or {}
for f = 1, #fields, 2 do
  if mine[fields[f]] and fields[f] ~= 'mode' then
    released = true
    wrote = wrote or string.sub(fields[f], -6) == ':write'
  end
end
if not released then
  if line then
    pcall(line.serve, key)
  end
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
for i = 3, holders do
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
else
  redis.call('DEL', key)
end
local ok, told, given = true, nil, nil
if line then
  ok, told, given = pcall(line.serve, key)
end
if ARGV[1] == 'force' then
  -- The managers of the removed holders check the record, as if the line was not served.
  local reached = publish(channel, wrote and '001' or '000')
  return left and {reached} or reached
end
-- Those who wait have been told when the record ends. If it ends much earlier now, they are told to look
-- again.
if left and not wrote and longest * 2 >= before then
  return {outsiders(channel) or -1}
end
-- After a grant nobody needs to know.
local reached = ok and given and 0 or publish(channel, (ok and '0' or '00') .. (wrote and '1' or '0'))
return ok and told and {reached, line.joinBehind(key, ARGV[1])} or reached
