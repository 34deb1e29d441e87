-- fair_acquire.lua takes a lock whose queue is empty or headed by the new holder.
-- Keys and arguments: see fair.lua.
--
-- Returns {1, front, mixed, missing, token}  acquired; the last of the tokens taken is
--                                            there only if tokens were asked for
--         {0, ttl, mixed, missing}           not acquired; the remaining life of the
--                                            record, or that of the first place if
--                                            there is no record
--         {2, ttl}                           a record of another kind of lock
--
-- missing is 1 if the new holder has no place, or if another place is gone.
--
-- Safe to repeat: a place joins once, and a record that carries the new holder
-- is its own. If the record carries another of the manager's numbers, or a place that leaves and
-- was granted by message, nobody has the lock: it is passed on if the new holder is first, and
-- removed if not.
if broken then
  return broken
end
local mine = place(ARGV[9])
local ttl, ours, taken, stray = -1, false, false, false
if redis.call('EXISTS', lock) == 1 then
  ttl = redis.call('PTTL', lock)
  if redis.call('HEXISTS', lock, 'mode') == 1 then
    return {2, ttl}
  end
  ours = redis.call('HEXISTS', lock, mine) == 1
  stray = not ours and not late and (carries(others) or carries(leaving))
  if ours or stray then
    redis.pcall('HDEL', lock, '') -- after a write none is refused for lack of memory
  end
  taken = not ours and not stray
  if taken and plain(holder()) then
    return {2, ttl}
  end
end
note()
clean()
local empty = not head()
join((ours or empty and not taken) and mine) -- who has the lock needs no place
local missing = refresh(mine)
expire()
local next = head()
if ours or not taken and not late and (empty or next == mine) then
  local token = install(mine, ours and ttl or -1)
  if type(token) == 'table' then
    return token
  end
  if stray then
    redis.call('HDEL', lock, stray)
  end
  return {1, front(), mixed(), missing, token}
end
if not redis.call('ZSCORE', deadlines, mine) then
  missing = 1
end
if not taken and not late then
  if stray then
    redis.call('DEL', lock)
  end
  -- A record that ends with its lease sends no message.
  serve()
  ttl = untilFree()
end
return {0, ttl, mixed(), missing}
