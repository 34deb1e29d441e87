-- readwrite_transfer.lua records that an entry of a read-write lock has passed
-- from one holder to another within this manager, and sets its lease. A writer's
-- entry may become a reader's, which others can join.
--
-- KEYS[1]   lock
-- KEYS[2]   token counter    only when ARGV[3] > 0
-- ARGV[1]   side of the new holder: read or write
-- ARGV[2]   lease in milliseconds
-- ARGV[3]   how many fencing tokens to take, 0 for none; a reader takes none and
--           gets the last one that was taken
-- ARGV[4]   the new holder
-- ARGV[5..] further holders of the same manager that the record may carry
-- and the last two: the prefix of the readers' keys, and the channel where others wait
--
-- Returns nil     the record carries none of these holders: the entry is lost
--         integer done; how many others may want the lock, as in transfer.lua
--         array   done; that number, and the last of the tokens, or an empty text without tokens. A
--                 third element means: a writer waits in the line. An empty array: nothing was done,
--                 as a reader was to become a writer while others read
--
-- Safe to repeat: the second run finds the new holder. It never creates a record.
-- Only the run that records the new holder may shorten the life of an entry. The
-- record then lives as long as the last of those that share it. Of readers' keys
-- that are missing see readwrite_acquire.lua.
local key, side, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local prefix, channel, lastHolder = ARGV[#ARGV - 1], ARGV[#ARGV], #ARGV - 2
local mode = redis.call('HGET', key, 'mode')
if not mode then
  return false
end
local field = mode == 'write' and ':write' or ''
local ours = false
for i = 4, lastHolder do
  ours = ours or redis.call('HEXISTS', key, ARGV[i] .. field) == 1
end
if not ours then
  return false
end
local recorded = redis.call('HEXISTS', key, ARGV[4] .. field) == 1
local fields, mine = {}, {}
if mode == 'read' then
  fields, mine = entries(key, 4, lastHolder)
end
if side == 'write' and taken(key, prefix, fields, mine) then
  return {}
end
for f = 1, side == 'write' and #fields or 0, 2 do
  if not mine[fields[f]] then
    redis.call('HDEL', key, fields[f]) -- a dead reader
  end
end
-- longest returns the life that the record needs: the longest of the other readers, and ours.
local function longest()
  local most = lease
  for f = 1, side == 'read' and #fields or 0, 2 do
    if not mine[fields[f]] then
      most = math.max(most, life(key, prefix, fields[f], fields[f + 1]))
    end
  end
  return most
end
local newLife = not recorded and longest() -- all is read before anything is written
redis.pcall('HDEL', key, '') -- after a write none is refused for lack of memory
local last = ARGV[3] ~= '0' and takeTokens(KEYS[2], side, ARGV[3]) -- before the record is written
if side == 'write' then
  redis.call('HSET', key, 'mode', 'write', ARGV[4] .. ':write', 1)
else
  local needs = lease
  for i = 4, lastHolder do
    local own = timeout(prefix, ARGV[i], 1)
    local ttl = redis.call('PTTL', own)
    if ttl == -2 and redis.call('HEXISTS', key, ARGV[i]) == 1 then
      redis.call('EXISTS', key, own)
    end
    if recorded then
      needs = math.max(needs, ttl)
    end
  end
  redis.call('SET', timeout(prefix, ARGV[4], 1), 1, 'PX', needs)
  redis.call('HSET', key, 'mode', 'read', ARGV[4], 1)
end
local ttl = redis.call('PTTL', key)
if newLife then
  redis.call('PEXPIRE', key, newLife)
elseif ttl < lease and (ttl >= 0 or mode == 'write') then
  redis.call('PEXPIRE', key, ARGV[2])
end
-- Last, as it may be refused: the record has its end by now.
for i = 4, lastHolder do
  if i > 4 or side == 'read' then
    redis.call('HDEL', key, ARGV[i] .. ':write')
  end
  if i > 4 or side == 'write' then
    redis.call('HDEL', key, ARGV[i])
    redis.pcall('DEL', timeout(prefix, ARGV[i], 1)) -- it may be at the other master
  end
end
local there, waits = redis.pcall('EXISTS', beside(key, 'line')), false -- an error: it may be at the other master
local served = true
if there ~= 0 and side == 'read' then
  local line = theLine()
  local ok, sum = pcall(line.wanted, key, whole - 1)
  waits = ok and sum >= whole
  if mode == 'write' then
    served = pcall(line.serve, key, whole - 1)
  end
end
if mode == 'write' and side == 'read' then
  publish(channel, (served and '0' or '00') .. '1') -- readers may come in
end
local n = waiting(channel, beside(key, 'wants'))
if waits then
  return {n, last or '', 1}
end
if last then
  return {n, last}
end
return n
