-- several_acquire.lua takes all of several locks for a new holder, or none.
--
-- KEYS        of each lock: the lock, and its token counter only when ARGV[3] is 1
-- ARGV[1]     lease in milliseconds
-- ARGV[2]     0, or for how many milliseconds to keep those that are free if
--             others hold the rest
-- ARGV[3]     1 to take a fencing token of each, else 0
-- ARGV[4]     n, how many locks there are
-- ARGV[5..n+4]  how each is wanted: plain, read or write
-- ARGV[n+5..2n+4]  the prefix of its readers' keys, not used for a plain lock
-- ARGV[2n+5]  the new holder
-- ARGV[2n+6..] further holders of the same manager that the records may carry
-- and the last: for how long the note of a writer that waits lasts, as in
-- readwrite_acquire.lua
--
-- Returns nil      all are acquired, no tokens asked for
--         bulk strings
--                  all are acquired: the token of each
--         integers not acquired: the position of the first lock that others hold,
--                  counted from 1, and the remaining life of its record in
--                  milliseconds, -1 if it has none, or that of a writer's note if
--                  the note keeps a reader out and ends sooner. A third one, 1: the record is
--                  of another kind of lock. If ARGV[2] is not 0, such a lock is
--                  reported before others, and none are kept
--
-- Safe to repeat: what an earlier run has left is among the further holders. Without
-- ARGV[2] a run that does not acquire changes nothing. The life of a record that
-- others share is never shortened. Of readers' keys that are missing see
-- readwrite_acquire.lua.
local n = tonumber(ARGV[4])
local first, last = 2 * n + 5, #ARGV - 1 -- the holders, the new one first
local stride = #KEYS / n

local function lock(i)
  return KEYS[(i - 1) * stride + 1], ARGV[n + i + 4], ARGV[i + 4]
end

local function timeout(prefix, holder, i)
  return prefix .. ':' .. holder .. ':rwlock_timeout:' .. i
end

-- fair reports whether a record is that of a fair lock of this library. It returns false if the user
-- may not read the record. A record with many fields, which are not ours, is not read.
local function fair(key)
  local holder = redis.pcall('HLEN', key) == 1 and redis.pcall('HGETALL', key)[1]
  return holder and string.sub(holder, -2) == ':f'
end

-- blocked returns nil if lock i can be taken. Else it returns the remaining life of its
-- record, whether that is of another kind, and whether only readers block a writer. It changes
-- nothing.
local function blocked(i)
  local key, prefix, want = lock(i)
  if redis.call('EXISTS', key) == 0 then
    return nil
  end
  if want == 'plain' then
    local mode = redis.call('HEXISTS', key, 'mode') == 1 -- its user may not use HGET
    for h = first, last do
      if not mode and redis.call('HEXISTS', key, ARGV[h]) == 1 then
        return nil
      end
    end
    return redis.call('PTTL', key), mode or fair(key)
  end
  local mode = redis.call('HGET', key, 'mode')
  if not mode then
    return redis.call('PTTL', key), true
  elseif mode == 'read' and want == 'read' then
    local kept = redis.pcall('EXISTS', prefix .. ':writer') ~= 1 -- or ours already
    for h = first, last do
      kept = kept or redis.call('HEXISTS', key, ARGV[h]) == 1
    end
    if kept then
      return nil
    end
  end
  local mine = {mode = true}
  for h = first, last do
    mine[ARGV[h]], mine[ARGV[h] .. ':write'] = true, true
  end
  local fields = redis.call('HGETALL', key)
  for f = 1, #fields, 2 do
    if not mine[fields[f]] then
      if mode == 'write' then
        return redis.call('PTTL', key)
      end
      for r = 1, tonumber(fields[f + 1]) or 0 do
        local own = timeout(prefix, fields[f], r)
        if redis.call('EXISTS', own) == 1 or redis.call('EXISTS', key, own) == 2 then
          local ttl = redis.call('PTTL', key)
          local left = want == 'read' and redis.call('PTTL', prefix .. ':writer') or -1
          if left >= 0 and (ttl < 0 or left < ttl) then
            ttl = left
          end
          return ttl, false, want == 'write'
        end
      end
    end
  end
  return nil
end

-- own removes what the record of lock i has of these holders, and for a writer what it
-- has of readers that have died. It reports whether others share what is left.
local function own(i)
  local key, prefix, want = lock(i)
  for h = first, last do
    redis.call('HDEL', key, ARGV[h], ARGV[h] .. ':write')
    redis.pcall('DEL', timeout(prefix, ARGV[h], 1)) -- it may be at the other master
  end
  if want == 'write' then
    redis.call('DEL', key)
  end
  return redis.call('HLEN', key) > 1
end

-- take makes lock i the new holder's, which blocked has found to be possible.
local function take(i, lease)
  local key, prefix, want = lock(i)
  local holder = ARGV[first]
  if want == 'plain' then
    -- HSET comes first. A server that is out of memory refuses only what it needs
    -- memory for, and only as the first write of a script.
    redis.call('HSET', key, holder, 1)
    redis.call('PEXPIRE', key, lease)
    for h = first + 1, last do
      redis.call('HDEL', key, ARGV[h])
    end
    return
  end
  local others, ttl = false, -1
  if redis.call('EXISTS', key) == 1 then
    ttl = redis.call('PTTL', key)
    others = own(i)
  end
  if want == 'read' then
    redis.call('SET', timeout(prefix, holder, 1), 1, 'PX', lease)
    redis.call('HSET', key, 'mode', want, holder, 1)
  else
    redis.call('HSET', key, 'mode', want, holder .. ':write', 1)
    redis.pcall('DEL', prefix .. ':writer')
  end
  if not others or ttl >= 0 and ttl < tonumber(lease) then
    redis.call('PEXPIRE', key, lease)
  end
end

-- give undoes take.
local function give(i)
  local key, prefix, want = lock(i)
  local field = want == 'write' and ARGV[first] .. ':write' or ARGV[first]
  local gone = redis.pcall('HDEL', key, field)
  if want == 'read' then
    redis.pcall('DEL', timeout(prefix, ARGV[first], 1))
  end
  local left = redis.pcall('HGETALL', key)
  if #left == 2 and left[1] == 'mode' or want ~= 'read' and type(gone) == 'table' then
    redis.pcall('DEL', key)
  end
end

-- takeAll takes the locks at these positions. A record without an end would be worse
-- than none, so an error gives all of them back.
local function takeAll(which, lease)
  for t, i in ipairs(which) do
    local ok, err = pcall(take, i, lease)
    if not ok then
      for back = 1, t do
        give(which[back])
      end
      return type(err) == 'table' and err or {err = tostring(err)}
    end
  end
end

-- Most often none of the locks has a record, which one command tells.
local free, names, refused = {}, {}, nil
local whole = ARGV[2] == '0' -- all or nothing
local read, busy = {}, false -- the locks that only readers block, and whether another lock is blocked
for i = 1, n do
  free[i], names[i] = i, KEYS[(i - 1) * stride + 1]
end
local none = redis.call('EXISTS', unpack(names)) == 0
for i = 1, none and 0 or n do
  if i == 1 then
    free = {}
  end
  local ttl, other, readers = blocked(i)
  if not ttl then
    free[#free + 1] = i
  elseif other then
    return {i, ttl, 1}
  else
    refused = refused or {i, ttl}
    if readers then
      read[#read + 1] = i
    elseif whole then
      return refused
    else
      busy = true
    end
  end
end
if refused then
  -- While another lock is blocked, a note would keep readers out in vain.
  for _, i in ipairs((busy or ARGV[#ARGV] == '0') and {} or read) do
    local key, prefix = lock(i)
    if type(redis.pcall('EXISTS', key, prefix .. ':writer')) == 'number' then
      redis.pcall('SET', prefix .. ':writer', 1, 'PX', ARGV[#ARGV])
    end
  end
  if whole then
    return refused
  end
  return takeAll(free, ARGV[2]) or refused
end
-- Tokens come first. If they fail, no lock is taken; the tokens of some may be lost.
local tokens = nil
if ARGV[3] ~= '0' then
  tokens = {}
  for i = 1, n do
    local counter = KEYS[i * stride]
    local last = ARGV[i + 4] == 'read' and redis.call('GET', counter)
    redis.call('INCRBY', counter, last and 0 or 1) -- fails if the counter is no number
    tokens[i] = last or redis.call('GET', counter) -- as text: a Lua number has 53 bits
  end
end
return takeAll(free, ARGV[1]) or tokens or false
