-- readwrite_acquire.lua takes one side of a read-write lock for a new holder.
--
-- KEYS[1]   lock             hash: mode -> read or write, holder -> 1 for each
--                            reader, holder:write -> 1 for the writer
-- KEYS[2]   prefix           of the readers' keys: prefix:holder:rwlock_timeout:i
-- KEYS[3]   token counter    only when ARGV[3] > 0
-- ARGV[1]   side: read or write
-- ARGV[2]   lease in milliseconds
-- ARGV[3]   how many fencing tokens to take, 0 for none; a reader takes none and
--           gets the last one that was taken
-- ARGV[4]   the new holder
-- ARGV[5..] further holders of the same manager that the record may carry
--
-- Returns nil         acquired, no tokens asked for
--         bulk string acquired, the last of the tokens
--         integer     held by others: the record's remaining life in
--                     milliseconds, -1 if it has none
--         array       the same number, of a record of another kind of lock
--
-- Safe to repeat: what an earlier run has left is among the holders that are
-- removed first. A reader whose own key has expired is removed, too. The life of
-- a record that others share is never shortened.
local key, side, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local function timeout(holder, i)
  return KEYS[2] .. ':' .. holder .. ':rwlock_timeout:' .. i
end
local mode = redis.call('HGET', key, 'mode')
local others, ttl = false, -1
if mode then
  ttl = redis.call('PTTL', key)
  for i = 4, #ARGV do
    redis.call('HDEL', key, ARGV[i], ARGV[i] .. ':write')
    redis.call('DEL', timeout(ARGV[i], 1))
  end
  if mode == 'read' and side == 'write' then
    local fields = redis.call('HGETALL', key)
    for f = 1, #fields, 2 do
      local alive = fields[f] == 'mode'
      for i = 1, tonumber(fields[f + 1]) or 0 do
        alive = alive or redis.call('EXISTS', timeout(fields[f], i)) == 1
      end
      if not alive then
        redis.call('HDEL', key, fields[f])
      end
    end
  end
  others = redis.call('HLEN', key) > 1
  if others and (mode == 'write' or side == 'write') then
    return ttl
  end
elseif redis.call('EXISTS', key) == 1 then
  return {redis.call('PTTL', key)}
end
local last
if ARGV[3] ~= '0' then
  if side == 'write' then
    redis.call('INCRBY', KEYS[3], ARGV[3])
  elseif redis.call('EXISTS', KEYS[3]) == 0 then
    redis.call('INCRBY', KEYS[3], 1)
  end
  last = redis.call('GET', KEYS[3]) -- as text: a Lua number has 53 bits
end
redis.call('HSET', key, 'mode', side)
if side == 'read' then
  redis.call('SET', timeout(ARGV[4], 1), 1, 'PX', ARGV[2])
  redis.call('HSET', key, ARGV[4], 1)
else
  redis.call('HSET', key, ARGV[4] .. ':write', 1)
end
-- What others share keeps its end, or has none if it was taken away: each reader's
-- own key has one.
if not others or ttl >= 0 and ttl < lease then
  redis.call('PEXPIRE', key, ARGV[2])
end
return last
