-- line.lua is in the scripts that serve a line. A line has the managers of this library that wait for
-- a plain lock, or for permits of a name, in the order in which they came. Each manager has one
-- position, for all its requests. A plain lock counts as one permit. A line has two keys:
--
--   line    list of the managers, the first is next
--   wants   hash: manager -> "n id till flags", and for a plain lock the note of a grant by message
--           n      how many free permits the first request of the manager needs
--           id     the number of the manager's script that said so
--           till   until when the manager keeps its position if it runs no script, in ms since 1970
--           flags  t: the manager was told that permits are free, since the script ran
--                  g: the manager gathers, and is told of any free permit when it is first
--                  d: the manager may be deaf: it does not listen on its channel and asks from
--                  time to time, or the server does not count all who listen
--
-- A script of a plain lock says what its manager wants in one text, which begins with "manager id life
-- flags". The manager keeps its position for life, in ms. If life is 0, the manager does not join. If
-- the manager can be granted the lock by message, the note follows:
--
--   " place sent lease secret fenced", and in the hash " since server" behind that
--           place   the number of the hold
--           sent    a text without spaces, which the message returns
--           lease   of the record, in ms
--           secret  of the manager, hexadecimal
--           fenced  how many tokens the hold takes, 0 or 1
--           since   when the script ran, in microseconds since 1970
--           server  the replication ID of the server that ran it
--
-- Nobody overtakes: a request gets free permits if as many are left for all managers before its own.
-- So the first manager keeps what is free until that is enough, and nobody who needs many starves.
--
-- A script that has line.lua and leaves permits free tells the managers for which they are, on a
-- channel of each manager. The other scripts tell all managers, on the channel of the name. A manager
-- that should listen, and does not, loses its position at once. A manager that runs no script loses
-- it after a time that is longer than managers wait between two tries, or two seconds after it was
-- told. Both keys expire if no manager joins for so long.
--
-- Clients of Redisson join no line. A message on the channel of the name is for them. A script that
-- has served the line puts a 0 before the message: '00' for '0', '05' for '5'. Then no manager of this
-- library needs to look.
--
-- The keys of the line are no KEYS: they often do not exist, and while a slot of a cluster is moved, a
-- server refuses a script if only some of its keys are there. So each function below may fail half
-- way. The callers use pcall, and go on without the line. What half of a change leaves harms nobody:
--   - A field is written after the list. A member of the list without a field goes when it is first.
--     If the manager joins before that, it is in the list twice, and counts twice.
--   - A hash without a list goes with the next script that joins.
--   - A line that may be at the other master is not joined: EXISTS of several keys fails if only some
--     of them may be here.
--
-- A script of a manager may run late. A position that is joined late goes like that of a manager that
-- is gone. A script that leaves the line does nothing if a newer one has joined.
local clock = redis.pcall('TIME')
if not clock[1] then
  return clock -- an error: the user may not ask
end
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local patience = 2000 -- of the first manager with one that was told: as long as managers wait between two tries

-- positionOf returns what the hash says of a manager, or nil if the manager is not in the line.
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
-- does nothing if a newer script of the manager has joined.
local function join(line, wants, manager, n, id, life, flags, note)
  if redis.call('EXISTS', line) == 0 and redis.call('EXISTS', wants) == 1 then -- the server has lost the list
    redis.call('DEL', wants)
  end
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

-- tell tells the managers for which permits are free. A manager that may be deaf counts as told. The
-- field of a manager that was told loses its note: the manager asks.
local function tell(line, wants, channel, free)
  local i = 0
  while true do
    local manager, n, id, till, flags = at(line, wants, i)
    if not manager then
      return
    end
    local enough = n <= free or i == 0 and free > 0 and string.find(flags, 'g')
    if not enough then
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
-- by message in fair.lua, whose message this is. It returns the lease of the grant, and how many clients
-- subscribe to the channel of the name. It returns nil if it can't. If clients subscribe that are in no
-- line, nobody is granted by message: they could never be first. The caller's manager, which has left
-- the line, is the one more that may subscribe.
local function give(key)
  local line, wants, channel, counter = keysOf(key)
  local first, _, _, _, flags, note = at(line, wants, 0)
  local place, sent, lease, secret, fenced, since, where =
    string.match(note or '', '^ (%d+) (%S+) (%d+) (%x+) (%d) (%d+) (%x+)$') -- no match if the server is not known
  if not place or string.find(flags, 'd') or where ~= server() then
    return
  end
  -- Subscribers are counted first: one at a replica may hear a message that nobody hears here.
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
  local grant = table.concat({place, sent, string.format('%.0f', micros - since), lease, token}, ' ')
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
  return first and till - now
end

-- enter joins the line, if the manager wants that. If a key of the line may be at the other master of a
-- slot that is moved, nobody joins.
local function enter(key, want)
  local manager, id, life, flags, note = string.match(want, '^(%S+) (%d+) (%d+) (%l*)(.*)$')
  local line, wants = keysOf(key)
  if not manager or life == '0' or type(redis.pcall('EXISTS', key, line, wants)) ~= 'number' then
    return
  end
  if note ~= '' then
    note = table.concat({note, string.format('%.0f', micros), server()}, ' ')
  end
  join(line, wants, manager, 1, tonumber(id), tonumber(life), flags, note)
end

-- depart leaves the line, if there is a manager in want.
local function depart(key, want)
  local manager, id = string.match(want, '^(%S+) (%d+)')
  local line, wants = keysOf(key)
  if manager then
    leave(line, wants, manager, tonumber(id))
  end
end

-- refusal refuses a free lock to a manager that others come before. The manager enters the line, and
-- the line is served. refusal returns for how many milliseconds another manager has the lock, or time to
-- ask. It returns nil or false if the manager may take the lock.
local function refusal(key, want)
  local manager = string.match(want, '^%S+')
  local line, wants, channel = keysOf(key)
  if ahead(line, wants, channel, manager, 0) == 0 then
    return
  end
  pcall(enter, key, want)
  local ok, left = pcall(serve, key)
  if redis.call('EXISTS', key) == 1 then -- another manager was granted the lock
    return redis.call('PTTL', key)
  end
  -- All who came before may be gone: serve has found that nobody hears them.
  return ok and left and redis.pcall('LINDEX', line, 0) ~= manager and left
end

-- released serves the line of a lock from which an owner was removed, and tells the clients that are in
-- no line. It returns what release.lua returns.
local function released(key, channel, owner)
  local free = type(redis.pcall('DEL', key)) == 'number' -- a record has one holder: what is left has none
  local line, wants = keysOf(key)
  local manager = string.match(owner, '^(.*):%d+$')
  if redis.pcall('HEXISTS', wants, manager) == 1 then
    pcall(remove, line, wants, manager) -- who has the lock is in no line: a late copy has joined
  end
  local ok, left, subscribers
  if free then
    ok, left, subscribers = pcall(serve, key)
  end
  local told = subscribers
  if not told then -- else the lock is taken, and nobody needs to know
    told = redis.pcall('PUBLISH', channel, ok and '00' or '0')
    told = type(told) == 'table' and told.err or told
  end
  return ok and left and {told} or told
end

-- ended serves the line of a lock that is free, because its record has ended by itself.
local function ended(key)
  if redis.pcall('EXISTS', key) == 0 then
    serve(key)
  end
end
