-- readwrite_acquire.lua takes one side of a read-write lock for a new holder.
--
-- KEYS[1]   lock             hash: mode -> read or write, holder -> 1 for each
--                            reader, holder:write -> 1 for the writer
-- KEYS[2]   token counter    only when ARGV[3] > 0
-- ARGV[1]   side: read or write
-- ARGV[2]   lease in milliseconds
-- ARGV[3]   how many fencing tokens to take, 0 for none; a reader takes none and
--           gets the last one that was taken
-- ARGV[4]   the new holder
-- ARGV[5..] further holders of the same manager that the record may carry
-- and the last two: for how long the note of a writer that waits lasts, in milliseconds, 0:
--           the request does not wait; and the prefix of the readers' keys,
--           prefix:holder:rwlock_timeout:i, and of the note, prefix:writer
--
-- Returns nil         acquired, no tokens asked for
--         bulk string acquired, the last of the tokens
--         integer     held by others: the record's remaining life in
--                     milliseconds, -1 if it has none. For a reader that a note
--                     keeps out: that of the note, if it ends sooner
--         array       the same number, of a record of another kind of lock
--
-- Safe to repeat: what an earlier run has left is among the holders that are
-- removed first. A reader whose own key has expired is removed, too. The life of
-- a record that others share is never shortened.
--
-- A writer that waits for readers leaves a note, which expires if the writer asks no more. While the
-- note is there, no further reader is granted while others read. So the readers come to an end. The
-- last one leaves the note 100 ms, in which no reader is granted at all: a writer can take the lock,
-- however near other readers are. The writer removes the note. So readers and writers that wait while
-- somebody writes have equal chances.
--
-- The readers' keys are no KEYS, as only the record says which there are. While a slot
-- of a cluster is moved, a reader's key may be at the other master. It must not count as
-- expired. So a key that is missing is looked for once more, together with the record: a
-- server that has only some keys of a command fails it then, and the script with it.
local key, side, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local waits, note = ARGV[#ARGV - 1], ARGV[#ARGV] .. ':writer'
local function timeout(holder, i)
  return ARGV[#ARGV] .. ':' .. holder .. ':rwlock_timeout:' .. i
end
local function alive(own)
  return redis.call('EXISTS', own) == 1 or redis.call('EXISTS', key, own) == 2
end
local mode = redis.call('HGET', key, 'mode')
local others, ttl = false, -1
if mode then
  ttl = redis.call('PTTL', key)
  for i = 4, #ARGV - 2 do
    redis.call('HDEL', key, ARGV[i], ARGV[i] .. ':write')
    redis.pcall('DEL', timeout(ARGV[i], 1)) -- it may be at the other master
  end
  if mode == 'read' and side == 'write' then
    local fields = redis.call('HGETALL', key)
    for f = 1, #fields, 2 do
      local stays = fields[f] == 'mode'
      for i = 1, tonumber(fields[f + 1]) or 0 do
        stays = stays or alive(timeout(fields[f], i))
      end
      if not stays then
        redis.call('HDEL', key, fields[f])
      end
    end
  end
  others = redis.call('HLEN', key) > 1
  if others and (mode == 'write' or side == 'write') then
    -- If a key may be at the other master of a slot that is moved, EXISTS fails, and no note is left.
    if mode == 'read' and waits ~= '0' and type(redis.pcall('EXISTS', key, note)) == 'number' then
      redis.pcall('SET', note, 1, 'PX', waits)
    end
    return ttl
  end
elseif redis.call('EXISTS', key) == 1 then
  return {redis.call('PTTL', key)}
end
if side == 'read' then
  local left = redis.pcall('PTTL', note)
  if type(left) == 'number' and left >= 0 and (others or left <= 100) then
    if others and ttl >= 0 then
      left = math.min(left, ttl)
    end
    return math.max(1, left)
  end
end
local last
if ARGV[3] ~= '0' then
  last = side == 'read' and redis.call('GET', KEYS[2])
  -- A counter that is no number fails this, before the record is written.
  redis.call('INCRBY', KEYS[2], last and 0 or side == 'read' and 1 or ARGV[3])
  last = last or redis.call('GET', KEYS[2]) -- as text: a Lua number has 53 bits
end
if side == 'read' then
  -- Before the record is written: the old master of a slot takes no new key.
  redis.call('SET', timeout(ARGV[4], 1), 1, 'PX', ARGV[2])
  redis.call('HSET', key, 'mode', side, ARGV[4], 1)
else
  redis.call('HSET', key, 'mode', side, ARGV[4] .. ':write', 1)
  redis.pcall('DEL', note) -- after HSET: a server that is out of memory refuses only the first write of a script
end
-- What others share keeps its end, or has none if it was taken away: each reader's
-- own key has one.
if not others or ttl >= 0 and ttl < lease then
  redis.call('PEXPIRE', key, ARGV[2])
end
return last
