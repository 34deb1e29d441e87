-- several_release.lua gives up what these holders have of several locks, and tells
-- those who wait.
--
-- KEYS        of each lock: the lock, its channel, and the prefix of its readers'
--             keys (for a plain lock its name again)
-- ARGV[1]     n, how many locks there are
-- ARGV[2..n+1]  how each is held: plain, read or write
-- ARGV[n+2..] every holder of this manager that the records may carry
--
-- Returns nil    the records carry none of these holders
--         array  of how many locks were released, how many messages were
--                published, the most subscribers that one of them reached or, if
--                there was none, -1, and, if a message could not be published, why
--         error  one of the locks could not be released, the others were
--
-- Safe to repeat: the second run returns nil. A key that is no lock counts as not held.
local n = tonumber(ARGV[1])

local function timeout(prefix, holder, i)
  return prefix .. ':' .. holder .. ':rwlock_timeout:' .. i
end

-- plain releases a plain lock. It returns whether it has, and the message.
local function plain(key)
  if #ARGV == n + 2 then -- the only holder that its record can have
    return redis.call('HDEL', key, ARGV[n + 2]) == 1, '0'
  end
  for h = n + 2, #ARGV do
    if redis.call('HEXISTS', key, ARGV[h]) == 1 then
      redis.call('DEL', key)
      return true, '0'
    end
  end
  return false
end

-- side releases a side of a read-write lock. It returns whether it has, and the
-- message if there is one: see readwrite_release.lua.
local function side(key, prefix)
  if redis.call('HEXISTS', key, 'mode') == 0 then
    return false
  end
  local released, wrote = false, false
  for h = n + 2, #ARGV do
    if redis.call('HDEL', key, ARGV[h]) == 1 then
      released = true
      redis.call('DEL', timeout(prefix, ARGV[h], 1))
    end
    if redis.call('HDEL', key, ARGV[h] .. ':write') == 1 then
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
    for r = 1, tonumber(fields[f + 1]) or 0 do
      life = math.max(life, redis.call('PTTL', timeout(prefix, fields[f], r)))
    end
    if string.sub(fields[f], -6) == ':write' then
      left, longest = true, math.max(longest, before)
    elseif life >= 0 then
      left, longest = true, math.max(longest, life)
    elseif fields[f] ~= 'mode' then
      redis.call('HDEL', key, fields[f])
    end
  end
  if not left then
    redis.call('DEL', key)
    return true, wrote and '1' or '0'
  end
  if wrote then
    redis.call('HSET', key, 'mode', 'read')
  end
  redis.call('PEXPIRE', key, math.max(longest, 1))
  if wrote or longest * 2 < before then
    return true, wrote and '1' or '0'
  end
  return true
end

local done, told, most, why, failed = 0, 0, -1, nil, nil
for i = 1, n do
  local key, channel, prefix = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local ok, released, message = pcall(ARGV[i + 1] == 'plain' and plain or side, key, prefix)
  if not ok then
    local text = type(released) == 'table' and released.err or tostring(released)
    if not string.find(text, 'WRONGTYPE', 1, true) then
      failed = text
    end
  elseif released then
    done = done + 1
    if message then
      local reached = redis.pcall('PUBLISH', channel, message)
      if type(reached) == 'table' then
        why = reached.err
      else
        told, most = told + 1, math.max(most, reached)
      end
    end
  end
end
if failed then
  return {err = failed}
elseif done == 0 then
  return false
end
return {done, told, most, why}
