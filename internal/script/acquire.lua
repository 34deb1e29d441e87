-- acquire.lua takes a free lock, or one that this manager's own owners hold,
-- for a new owner. It also takes a lock that is kept for an ended hold of any manager, if ARGV names the hold.
--
-- KEYS[1]   lock             hash: owner -> 1
-- KEYS[2]   token counter    only when ARGV[2] > 0
-- ARGV[1]   lease in milliseconds
-- ARGV[2]   how many fencing tokens to take, 0 for none
-- ARGV[3]   what the manager wants of the line, see line.lua; or empty
-- ARGV[4]   the new owner
-- ARGV[5..] further owners of the same manager that the record may carry, and an ended hold
--
-- Returns nil         acquired, no tokens asked for
--         bulk string acquired, the last of the tokens taken
--         integer     held by others: their record's remaining life in
--                     milliseconds, -1 if it has none
--         array       the same number: the record is of another kind of lock. The same number and
--                     0: the manager does not stand in the line as it wants
--
-- A lock that is free, but for which managers stand in a line, is theirs. The first of them is granted
-- the lock, or told: then the number is the life of its record, or for how long it has time to ask. With
-- ARGV[3], a manager that is refused joins the line, and a manager that gets the lock leaves.
--
-- Safe to repeat: the second run finds the new owner and installs it again;
-- it takes new tokens, so that numbers are skipped but never given twice. The run
-- that puts the new owner in the place of another one sets the life of the
-- record. Later runs never shorten it.
local key, want = KEYS[1], ARGV[3]
local line, ttl, ours = false, -1, false

if redis.pcall('EXISTS', key, beside(key, 'line')) ~= 0 then -- or an error: the line may be at the other master
  line = theLine()
  if redis.call('EXISTS', key) == 1 then
    for i = 4, #ARGV do
      if redis.call('HEXISTS', key, ARGV[i]) == 1 then
        ours = i
        break
      end
    end
    ttl = redis.call('PTTL', key)
    if not ours then
      if fair(key) or redis.call('HEXISTS', key, 'mode') == 1 then
        return {ttl}
      end
      local ok, joined = pcall(line.enter, key, want, whole)
      return (want == '' or ok and joined) and ttl or {ttl, 0}
    end
  else
    local ok, left = pcall(line.refusal, key, want, whole, whole)
    if ok and left then
      return left
    end
  end
end
if ours then
  redis.pcall('HDEL', key, '') -- a write that changes nothing: after a write none is refused for lack of memory
elseif line then
  pcall(line.stay, key, want)
end
local last
if ARGV[2] ~= '0' then
  redis.call('INCRBY', KEYS[2], ARGV[2])
  last = redis.call('GET', KEYS[2]) -- as text: a Lua number has 53 bits
end
redis.call('HSET', key, ARGV[4], 1)
if ours ~= 4 or ttl < tonumber(ARGV[1]) then -- 4 is the new owner
  local set = redis.pcall('PEXPIRE', key, ARGV[1])
  if type(set) == 'table' then
    -- A lock without an end would be worse than none. One that has an end may be held.
    if ttl < 0 then
      redis.pcall('DEL', key)
    end
    return set
  end
end
-- Last, as it may be refused: the record has its end by now.
for i = 5, #ARGV do
  redis.call('HDEL', key, ARGV[i])
end
if line then
  pcall(line.depart, key, want) -- not before: what may fail must not cost the position
end
return last
