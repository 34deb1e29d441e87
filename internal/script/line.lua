-- line.lua is a part of the scripts that serve a line. A line has the managers of this library that
-- wait for a plain lock, or for permits of a name, in the order in which they came. Each manager has
-- one position, for all its requests. A plain lock counts as one permit. A line has two keys:
--
--   line    list of the managers, the first is next
--   wants   hash: manager -> "n id till flags", and for a plain lock what a grant by message needs
--           n      how many free permits the first request of the manager needs
--           id     the number of the manager's script that said so
--           till   until when the manager keeps its position if it runs no script, in ms since 1970
--           flags  t: the manager was told that permits are free, since the script ran
--                  g: the manager gathers, and is told of any free permit when it is first
--                  d: the manager may be deaf: it does not listen on its channel and asks from
--                  time to time, or the server does not count all who listen
--
-- Nobody overtakes: a request gets free permits if as many are left for all managers before its own.
-- So the first manager keeps what is free until that is enough, and nobody who needs many starves.
--
-- A script that begins with line.lua and leaves permits free tells the managers for which they are,
-- on a channel of each manager. The other scripts tell all managers, on the channel of the name. A
-- manager that should listen, and does not, loses its position at once. A manager that runs no script
-- loses it after a time that is longer than managers wait between two tries, or two seconds after it
-- was told. Both keys expire if no manager runs a script for so long.
--
-- Clients of Redisson join no line. A message on the channel of the name is for them. It begins with 0
-- if the line was served: then no manager of this library needs to look.
--
-- The keys of the line are no KEYS: they often do not exist, and while a slot of a cluster is moved, a
-- server refuses a script if only some of its keys are there. So each function below may fail half
-- way. The callers use pcall, and go on without the line. What half of a change leaves harms nobody:
--   - a member of the list without a field goes when it is first
--   - a field is written after the list
--   - a line that may be at the other master is not joined
--
-- A script of a manager may run late. A position that is joined late goes like that of a manager that
-- is gone. A script that leaves the line does nothing if a newer one has joined.
local clock = redis.pcall('TIME')
if not clock[1] then
  return clock -- an error: the user may not ask
end
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local patience = 2000

-- positionOf returns what the hash says of a manager, or nil if the manager is not in the line. note is
-- what a grant by message needs, or empty.
local function positionOf(wants, manager)
  local n, id, till, flags, note =
    string.match(redis.call('HGET', wants, manager) or '', '^(%d+) (%d+) (%d+) (%l*)(.*)$')
  return tonumber(n), tonumber(id), tonumber(till), flags, note
end

local function remove(line, wants, manager)
  redis.call('HDEL', wants, manager)
  redis.call('LREM', line, 1, manager)
end

-- at returns the manager at a position of the line, and what positionOf returns of it. Positions that
-- are over go.
local function at(line, wants, i)
  while true do
    local manager = redis.call('LINDEX', line, i)
    if not manager then
      return
    end
    local n, id, till, flags, note = positionOf(wants, manager)
    if n and now < till then
      return manager, n, id, till, flags, note
    end
    remove(line, wants, manager)
  end
end

-- ahead returns how many permits the managers before one need. It stops at more than most.
local function ahead(line, wants, channel, manager, most)
  local sum, i = 0, 0
  while sum <= most do
    local other, n, _, _, flags = at(line, wants, i)
    if not other or other == manager then
      break
    end
    if not string.find(flags, 'd') and redis.pcall('PUBSUB', 'NUMSUB', channel .. ':' .. other)[2] == 0 then
      remove(line, wants, other)
    else
      sum, i = sum + n, i + 1
    end
  end
  return sum
end

-- join puts a manager at the end of the line, unless it is in the line, and notes what it needs. It
-- does nothing if a newer script of the manager has run.
local function join(line, wants, manager, n, id, life, flags, note)
  local old, newest = positionOf(wants, manager)
  if old and newest > id then
    return
  end
  if not old then
    redis.call('RPUSH', line, manager)
  end
  redis.call('HSET', wants, manager, string.format('%d %d %d %s%s', n, id, now + life, flags, note or ''))
  redis.pcall('PEXPIRE', line, life)
  redis.pcall('PEXPIRE', wants, life)
end

-- leave removes a manager from the line, unless a newer script has joined.
local function leave(line, wants, manager, id)
  local n, newest = positionOf(wants, manager)
  if n and newest <= id then
    remove(line, wants, manager)
  end
end

-- tell tells the managers for which permits are free.
local function tell(line, wants, channel, free)
  local i = 0
  while true do
    local manager, n, id, till, flags = at(line, wants, i)
    local any = manager and i == 0 and free > 0 and string.find(flags, 'g')
    if not manager or n > free and not any then
      return
    end
    local told = string.find(flags, 't')
    local heard = told or redis.pcall('PUBLISH', channel .. ':' .. manager, free) ~= 0
    if not heard and not string.find(flags, 'd') then
      remove(line, wants, manager)
    else
      if not told then
        till = math.min(till, now + patience)
        redis.pcall('HSET', wants, manager, string.format('%d %d %d %st', n, id, till, flags))
      end
      free, i = free - n, i + 1
    end
  end
end

-- The functions below are for plain locks.

local micros = clock[1] * 1000000 + clock[2]

-- keysOf returns the keys of the line of a lock, the channel, and the token counter.
local function keysOf(key)
  local tag = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
  return tag .. ':line', tag .. ':wants', 'redisson_lock__channel:' .. tag, 'redisson_lock_token:' .. tag
end

-- server returns the replication ID of the server, or '' if the user may not ask.
local replid
local function server()
  if not replid then
    local info = redis.pcall('INFO', 'replication')
    replid = type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or ''
  end
  return replid
end

-- give records the first manager of the line as the holder of a free lock, and tells it so: see Grants
-- by message in fair.lua, whose message this is. It returns the lease of the grant, or nil if it can't.
-- If clients subscribe that are in no line, nobody is granted by message: they could never be first.
local function give(key)
  local line, wants, channel, counter = keysOf(key)
  local first, _, _, _, flags, note = at(line, wants, 0)
  local place, text, lease, secret, fenced, since, where =
    string.match(note or '', '^ (%d+) (%S+) (%d+) (%x+) (%d) (%d+) (%x+)$')
  if not place or string.find(flags, '[dt]') or where ~= server() then
    return
  end
  local hear, all = redis.pcall('PUBSUB', 'NUMSUB', channel .. ':' .. first), redis.pcall('PUBSUB', 'NUMSUB', channel)
  if hear.err or all.err or hear[2] == 0 or all[2] > redis.call('HLEN', wants) + 1 then
    return
  end
  local token = 0
  if fenced == '1' and type(redis.pcall('INCRBY', counter, 1)) == 'number' then
    token = redis.pcall('GET', counter) -- as text: a Lua number has 53 bits
  end
  if type(token) == 'table' or type(redis.pcall('HSET', key, first .. ':' .. place, 1)) == 'table' then
    return
  end
  local grant = table.concat({place, text, string.format('%.0f', micros - since), lease, token}, ' ')
  -- The end counts from the same instant as the message, however long the script takes.
  local done = redis.pcall('PEXPIREAT', key, string.format('%.0f', now + lease))
  if done == 1 then
    done = redis.pcall('PUBLISH', channel .. ':' .. first, grant .. ' ' .. redis.sha1hex(secret .. grant))
  end
  if type(done) == 'table' or done == 0 then
    redis.call('DEL', key)
    return
  end
  remove(line, wants, first)
  return tonumber(lease), all[2]
end

-- serve grants a free lock to the first manager of the line, or tells it that the lock is free. It
-- returns for how many milliseconds the manager has the lock, or has time to ask. It returns nil if
-- nobody is in the line. After a grant it also returns how many clients subscribe to the channel.
local function serve(key)
  local lease, subscribers = give(key)
  if lease then
    return lease, subscribers
  end
  local line, wants, channel = keysOf(key)
  tell(line, wants, channel, 1)
  local first, _, _, till = at(line, wants, 0)
  return first and math.max(1, math.ceil(till - now))
end

-- partOf reads the part of a manager in the line of a lock: "manager id life flags note". The script is
-- the manager's script of that number, and the manager keeps its position for life. If life is 0, the
-- manager does not join. The note is " place text lease secret fenced", for a grant by message, or empty:
--   place   the number of the hold
--   text    a text without spaces that the message returns
--   lease   in ms
--   secret  of the manager, hexadecimal
--   fenced  how many tokens the hold takes, 0 or 1
local function partOf(part)
  local manager, id, life, flags, note = string.match(part, '^(%S+) (%d+) (%d+) (%l*)(.*)$')
  return manager, tonumber(id), tonumber(life), flags, note
end

-- stand joins the line, unless a key of the line may be at the other master of a slot that is moved.
local function stand(key, part)
  local manager, id, life, flags, note = partOf(part)
  local line, wants = keysOf(key)
  if life and life > 0 and type(redis.pcall('EXISTS', key, line, wants)) == 'number' then
    if note ~= '' then
      note = table.concat({note, string.format('%.0f', micros), server()}, ' ')
    end
    join(line, wants, manager, 1, id, life, flags, note)
  end
end

-- refusal returns nil if nobody comes before the manager of a free lock. Else the manager joins the
-- line, and the line is served. refusal returns for how many milliseconds another manager has the lock
-- or time to ask.
local function refusal(key, part)
  local manager = partOf(part)
  local line, wants, channel = keysOf(key)
  if ahead(line, wants, channel, manager, 0) == 0 then
    return
  end
  pcall(stand, key, part)
  local ok, left = pcall(serve, key)
  if redis.call('EXISTS', key) == 1 then
    return redis.call('PTTL', key)
  end
  return ok and left and redis.pcall('LINDEX', line, 0) ~= manager and left
end

-- depart takes a manager out of the line. Of its part in the line the first two words count.
local function depart(key, part)
  local manager, id = string.match(part, '^(%S+) (%d+)')
  local line, wants = keysOf(key)
  if manager then
    leave(line, wants, manager, tonumber(id))
  end
end

-- freed serves the line of a lock if the lock is free, and tells the clients that are in no line. gone is
-- set if an owner was removed. Then a late copy of a script has joined the line for the owner's manager,
-- if any. freed returns what release.lua returns.
local function freed(key, channel, owner, gone)
  local free
  if gone then
    free = type(redis.pcall('DEL', key)) == 'number' -- fields of nobody
    local line, wants = keysOf(key)
    local manager = string.match(owner, '^(.*):%d+$')
    if redis.pcall('HEXISTS', wants, manager) == 1 then
      pcall(remove, line, wants, manager)
    end
  else
    free = redis.pcall('EXISTS', key) == 0
  end
  local ok, next, told = false, nil, nil
  if free then
    ok, next, told = pcall(serve, key)
  end
  if not gone then
    return false
  end
  if not (ok and told) then -- else nobody else can take the lock
    told = redis.pcall('PUBLISH', channel, ok and '00' or '0')
    told = type(told) == 'table' and told.err or told
  end
  return ok and next and {told} or told
end
