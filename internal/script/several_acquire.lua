-- several_acquire.lua takes all of several locks for a new holder, or none.
--
-- KEYS        of each lock: the lock, and its token counter only when ARGV[3] is 1
-- ARGV[1]     lease in milliseconds
-- ARGV[2]     0, or for how many milliseconds to keep those before the first that the set can't have
-- ARGV[3]     1 to take a fencing token of each, else 0
-- ARGV[4]     n, how many locks there are
-- ARGV[5..n+4]  how each is wanted: plain, read or write
-- ARGV[n+5..2n+4]  the prefix of its readers' keys, not used for a plain lock
-- ARGV[2n+5]  what the set wants of the lines, see line.lua; or empty
-- ARGV[2n+6]  the new holder
-- ARGV[2n+7..] further holders of the same manager that the records may carry
--
-- Returns nil      all are acquired, no tokens asked for
--         bulk strings
--                  all are acquired: the token of each
--         integers not acquired: the position, from 1, of the first lock that others hold, or are first
--                  for; and the remaining life of its record in milliseconds, -1 if it has none, or for
--                  how long those who are first have time to ask. A third integer is 1 if the record is
--                  of another kind of lock, and none are kept; 0 if the set does not stand in the line
--                  of that lock as it wants
--
-- A set that is refused joins the line of the first lock that it can't have, under an ID of its own, and leaves
-- the lines of the others. All sets keep their locks in the order of the names, so none waits for another in a
-- circle.
--
-- Safe to repeat: what an earlier run has left is among the further holders. Without
-- ARGV[2] a run that does not acquire changes nothing but lines. Of readers' keys that are
-- missing see readwrite_acquire.lua.
local n = tonumber(ARGV[4])
local wish = ARGV[2 * n + 5]
local first, last = 2 * n + 6, #ARGV -- the holders, the new one first
local stride = #KEYS / n
local line -- the functions of the lines, if there are any

-- lock returns the key of lock i, the prefix of its readers' keys, and how it is wanted. (Lua drops all
-- but the key if arguments follow the call.) From then on, the functions of the line are about that lock.
local function lock(i)
  local want = ARGV[i + 4]
  channels = want == 'plain' and 'redisson_lock__channel:' or 'redisson_rwlock:'
  return KEYS[(i - 1) * stride + 1], ARGV[n + i + 4], want
end

-- held looks at the record of lock i, and changes nothing. It returns three results:
--   the remaining life of the record, if the record keeps the set out
--   whether the record is of another kind of lock
--   how many permits are free, if the record does not keep the set out and is not the set's own
local function held(i)
  local key, prefix, want = lock(i)
  if redis.call('EXISTS', key) == 0 then
    return nil, false, whole
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
  if mode ~= 'read' and mode ~= 'write' then
    return redis.call('PTTL', key), true
  end
  local ours, free = carries(key, first, last), want == 'read' and mode == 'read' and whole - 1 or whole
  if free == whole and taken(key, prefix, entries(key, first, last)) then
    return redis.call('PTTL', key)
  end
  return nil, false, not ours and free
end

-- blocked returns nil if lock i can be taken. Else it returns what held does, or for how long those who come
-- before the set have time to ask, and whether the set has what it wants of the line, which it joins.
local function blocked(i)
  local left, other, free = held(i)
  local key, _, want = lock(i)
  local needs = want == 'read' and 1 or whole
  if other then
    return left, true
  elseif left then
    local ok, joined = pcall(line.enter, key, wish, needs)
    return left, false, ok and joined
  elseif free then
    local ok, time = pcall(line.refusal, key, wish, needs, free)
    if ok and time then
      return time, false, true
    end
  else -- the set has it
    redis.pcall('HDEL', key, '') -- after a write none is refused for lack of memory
  end
end

-- take gives lock i to the new holder. blocked has returned nil.
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
  if redis.call('EXISTS', key) == 1 then
    giveUp(key, prefix, first, last)
    if want == 'write' then
      redis.call('DEL', key) -- the readers that are left have died
    end
  end
  local ttl = redis.call('PTTL', key)
  if want == 'read' then
    redis.call('SET', timeout(prefix, holder, 1), 1, 'PX', lease)
    redis.call('HSET', key, 'mode', want, holder, 1)
  else
    redis.call('HSET', key, 'mode', want, holder .. ':write', 1)
  end
  if ttl == -2 or ttl >= 0 and ttl < tonumber(lease) then
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
  -- Only the mode is left. Or HDEL has failed, and nobody shares the record.
  if #left == 2 and left[1] == 'mode' or want ~= 'read' and type(gone) == 'table' then
    redis.pcall('DEL', key)
  end
end

-- takeAll takes the locks at some positions, and leaves their lines. After an error it gives all of the locks
-- back, because a record without an end would be worse than none.
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
  for _, i in ipairs(line and which or {}) do
    pcall(line.depart, lock(i), wish) -- not before: what may fail must not cost the position
  end
end

local free, names, refused = {}, {}, nil
-- Most often none of the locks has a record or a line, which one command tells.
for i = 1, n do
  local key = lock(i)
  names[2 * i - 1], names[2 * i] = key, beside(key, 'line')
end
if redis.pcall('EXISTS', unpack(names)) ~= 0 then -- or an error: a line may be at the other master
  line = theLine()
end
for i = 1, line and n or 0 do
  pcall(line.stay, lock(i), wish)
end
for i = 1, n do
  local left, other, joined
  if refused then
    pcall(line.yield, lock(i), wish)
  elseif line then
    left, other, joined = blocked(i)
  end
  if other then
    return {i, left, 1}
  elseif left then
    refused = (joined or wish == '') and {i, left} or {i, left, 0}
  elseif not refused then
    free[#free + 1] = i
  end
end
if refused then
  if ARGV[2] ~= '0' then
    return takeAll(free, ARGV[2]) or refused
  end
  for _, i in ipairs(free) do
    pcall(line.yield, lock(i), wish)
  end
  return refused
end
-- Tokens come first. If they fail, no lock is taken; the tokens of some may be lost.
local tokens = nil
if ARGV[3] ~= '0' then
  tokens = {}
  for i = 1, n do
    tokens[i] = takeTokens(KEYS[i * stride], ARGV[i + 4], 1)
  end
end
return takeAll(free, ARGV[1]) or tokens or false
