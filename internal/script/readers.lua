-- readers.lua is in the scripts of read-write locks and of sets. For missing keys of readers see
-- readwrite_acquire.lua.

-- timeout returns the name of a reader's own key.
local function timeout(prefix, holder, i)
  return prefix .. ':' .. holder .. ':rwlock_timeout:' .. i
end

-- owns returns how many keys of its own a reader may have, by the value of the reader's field. Anybody may have
-- written a larger number there, and the server must not look for so many.
local function owns(count)
  return math.min(tonumber(count) or 0, 1000)
end

-- life returns the longest remaining life of a reader's own keys in milliseconds, -1 if one has no end, or -2 if
-- the reader has none. life fails if such a key is at the other master, because the EXISTS does.
local function life(key, prefix, holder, count)
  local longest = -2
  for i = 1, owns(count) do
    local own = timeout(prefix, holder, i)
    local ttl = redis.call('PTTL', own)
    if ttl == -2 then
      redis.call('EXISTS', key, own)
    end
    longest = math.max(longest, ttl)
  end
  return longest
end

-- takeTokens takes n fencing tokens, and returns the last as text: a Lua number has 53 bits. A reader takes
-- none, and gets the last one that was taken: it takes one if there is none. takeTokens fails, before it
-- writes, if the counter is no number.
local function takeTokens(counter, side, n)
  local last = side == 'read' and redis.call('GET', counter)
  redis.call('INCRBY', counter, last and 0 or side == 'read' and 1 or n)
  return last or redis.call('GET', counter)
end

-- entries returns the fields of the record of a read-write lock, and a set with mode and the fields of the
-- holders in ARGV[first..last].
local function entries(key, first, last)
  local mine = {mode = true}
  for i = first, last do
    mine[ARGV[i]], mine[ARGV[i] .. ':write'] = true, true
  end
  return redis.call('HGETALL', key), mine
end

-- taken reports whether others have a read-write lock: a writer, or a reader whose own key exists.
local function taken(key, prefix, fields, mine)
  for f = 1, #fields, 2 do
    local holder = not mine[fields[f]] and fields[f]
    if holder and (string.sub(holder, -6) == ':write' or life(key, prefix, holder, fields[f + 1]) ~= -2) then
      return true
    end
  end
  return false
end

-- carries reports whether the record of a read-write lock carries any of the holders in ARGV[first..last].
local function carries(key, first, last)
  local any = false
  for i = first, last do
    any = any or redis.call('HEXISTS', key, ARGV[i]) == 1 or redis.call('HEXISTS', key, ARGV[i] .. ':write') == 1
  end
  return any and redis.call('HEXISTS', key, 'mode') == 1
end

-- forget deletes the own keys of the holders in ARGV[first..last]. The record carries none of these holders.
local function forget(prefix, first, last)
  for i = first, last do
    redis.pcall('DEL', timeout(prefix, ARGV[i], 1)) -- it may be at the other master
  end
end

-- giveUp removes the holders in ARGV[first..last] from the record of a read-write lock, and the readers whose
-- own keys have expired. The record then lives no longer than the last of the readers. If it ends much earlier
-- now, those who have been told when it ends look again. All is read before anything is written. giveUp returns
-- false if the record carries none of the holders. Else it returns true, whether a holder was a writer, and
-- whether others have the lock.
local function giveUp(key, prefix, first, last)
  if not carries(key, first, last) then
    return false
  end
  local fields, mine = entries(key, first, last)
  local wrote, left, longest, before, dead = false, false, 0, redis.call('PTTL', key), {}
  for f = 1, #fields, 2 do
    local writes = string.sub(fields[f], -6) == ':write'
    if mine[fields[f]] then
      wrote = wrote or writes
    elseif writes then
      left, longest = true, math.max(longest, before)
    else
      local ttl = life(key, prefix, fields[f], fields[f + 1])
      if ttl >= 0 then
        left, longest = true, math.max(longest, ttl)
      else
        dead[#dead + 1] = fields[f]
      end
    end
  end
  for i = first, last do
    local count = redis.call('HGET', key, ARGV[i])
    if left then -- else DEL removes all, or is denied and leaves all
      redis.call('HDEL', key, ARGV[i], ARGV[i] .. ':write')
    end
    for own = 1, owns(count) do
      redis.pcall('DEL', timeout(prefix, ARGV[i], own)) -- it may be at the other master
    end
  end
  if left then
    for i = 1, #dead do
      redis.call('HDEL', key, dead[i])
    end
    if wrote then
      redis.call('HSET', key, 'mode', 'read')
    end
    redis.call('PEXPIRE', key, math.max(longest, 1))
    if not wrote and longest * 2 < before then
      publish(channels .. prefix, '00')
    end
  else
    redis.call('DEL', key)
  end
  return true, wrote, left
end
