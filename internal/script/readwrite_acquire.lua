-- readwrite_acquire.lua takes one side of a read-write lock for a new holder.
--
-- KEYS[1]   lock             hash: mode -> read or write, holder -> 1 for each
--                            reader, holder:write -> 1 for the writer
-- KEYS[2]   token counter    only when ARGV[3] > 0
-- ARGV[1]   side: read or write
-- ARGV[2]   lease in milliseconds
-- ARGV[3]   how many fencing tokens to take, 0 for none; a reader takes none and
--           gets the last one that was taken
-- ARGV[4]   what the manager wants of the line, see line.lua; or empty
-- ARGV[5]   the prefix of the readers' keys, prefix:holder:rwlock_timeout:i
-- ARGV[6]   the new holder
-- ARGV[7..] further holders of the same manager that the record may carry
--
-- Returns nil         acquired, no tokens asked for
--         bulk string acquired, the last of the tokens
--         integer     held by others: the record's remaining life in
--                     milliseconds, -1 if it has none. For a manager that others come before:
--                     for how long the first of them has time to ask
--         array       the same number, of a record of another kind of lock. A second number means:
--                     of a read-write lock, but the manager does not stand in the line as it wants
--
-- A manager that is refused joins the line with ARGV[4], and a manager that gets the lock leaves. A writer
-- in the line keeps out the readers behind the writer, so the readers before come to an end. A reader that
-- comes in place of a writer of its manager wakes the readers elsewhere.
--
-- Safe to repeat: what an earlier run has left is among the holders that are
-- removed first, as by a release.
--
-- The readers' keys are no KEYS, because only the record names the readers. While a slot
-- of a cluster is moved, a reader's key may be at the other master, and must not count as
-- expired. So a missing key is looked for again, together with the record: a server that has
-- only some keys of a command fails the command, and so the script.
local key, side, lease, want, prefix = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[4], ARGV[5]
local n = side == 'read' and 1 or whole

local line = redis.pcall('EXISTS', key, beside(key, 'line')) ~= 0 and theLine() -- or an error: the line may be at the other master
local mode = line and redis.call('HGET', key, 'mode')
local others, ours, wrote, ttl = false, false, false, -1
if mode == 'read' or mode == 'write' then
  ours, wrote, others = giveUp(key, prefix, 6, #ARGV)
  if not ours then
    -- A reader that joins readers does not ask whether they are alive.
    others = mode == 'read' and side == 'read' or taken(key, prefix, entries(key, 6, #ARGV))
  elseif wrote then
    mode = 'read'
  end
  ttl = redis.call('PTTL', key)
  if others and (mode == 'write' or side == 'write') then
    local ok, joined = pcall(line.enter, key, want, n)
    return (want == '' or ok and joined) and ttl or {ttl, 0}
  end
elseif line and redis.call('EXISTS', key) == 1 then
  return {redis.call('PTTL', key)}
end
if line and not ours then
  if mode and not others then
    redis.call('DEL', key) -- its readers were dead
  end
  local ok, left = pcall(line.refusal, key, want, n, others and whole - 1 or whole)
  if ok and left then
    return left
  end
end
if line then
  pcall(line.stay, key, want)
end
local last = ARGV[3] ~= '0' and takeTokens(KEYS[2], side, ARGV[3]) -- before the record is written
if side == 'read' then
  -- Before the record is written: the old master of a slot takes no new key.
  redis.call('SET', timeout(prefix, ARGV[6], 1), 1, 'PX', ARGV[2])
  redis.call('HSET', key, 'mode', side, ARGV[6], 1)
else
  redis.call('HSET', key, 'mode', side, ARGV[6] .. ':write', 1)
end
-- A record that others share ends no earlier, and stays without an end if it has none: each
-- reader's own key has one.
if not others or ttl >= 0 and ttl < lease then
  local set = redis.pcall('PEXPIRE', key, ARGV[2])
  if type(set) == 'table' then
    if not others then
      -- A lock without an end would be worse than none.
      redis.pcall('DEL', key)
    end
    return set
  end
end
if line then
  local ok, needed = pcall(line.depart, key, want) -- not before: what may fail must not cost the position
  -- A writer of this manager had the record, or stood in the line, and has left. So readers elsewhere may come in.
  if side == 'read' and (wrote or ok and needed == whole) then
    local served = pcall(line.serve, key, whole - 1)
    publish(channels .. prefix, (served and '0' or '00') .. '1')
  end
end
return last
