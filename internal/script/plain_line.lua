-- plain_line.lua is in the scripts of plain and of read-write locks, and of sets, after plain.lua and
-- line.lua. A plain lock, and a writer, need all of the permits of a name, whole. A reader needs one.

local micros = clock[1] * 1000000 + clock[2]

local lines = {} -- by the key of the lock

-- lineOf returns the line of a lock. counter is the token counter, and tag is the prefix of the keys of readers.
local function lineOf(key)
  local line = lines[key]
  if not line then
    local tag = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
    line = {
      key = key, list = beside(key, 'line'), wants = beside(key, 'wants'),
      channel = channels .. tag, counter = 'redisson_lock_token:' .. tag, tag = tag,
    }
    lines[key] = line
  end
  return line
end

-- record writes the record of a free lock, and returns the error if it can't.
local function record(line, holder, reads, lease)
  local key, err = line.key, nil
  if channels ~= 'redisson_rwlock:' then
    err = redis.pcall('HSET', key, holder, 1)
  elseif not reads then
    err = redis.pcall('HSET', key, 'mode', 'write', holder .. ':write', 1)
  else
    err = redis.pcall('SET', line.tag .. ':' .. holder .. ':rwlock_timeout:1', 1, 'PX', lease)
    err = err.err and err or redis.pcall('HSET', key, 'mode', 'read', holder, 1)
  end
  return type(err) == 'table' and err.err
end

-- give records the first manager of the line as the holder of a free lock, and tells it so. It returns the
-- lease of the grant, and whether the holder reads, or nil if it can't. While clients that can stand in no line
-- subscribe, nobody is granted a lock by message: those clients could never be first.
local function give(line)
  local first, n, _, _, flags, note = at(line, 0)
  local reads = n == 1
  local place, sent, lease, secret, fenced, since, where =
    string.match(note or '', '^ (%d+) (%S+) (%d+) (%x+) (%d) (%d+) (%x+)$') -- no match if the server is not known
  if not place or string.find(flags, 'd') or where ~= server() then
    return
  end
  -- Subscribers are counted before PUBLISH, which does not count a subscriber at a replica: such a subscriber would
  -- take a grant whose record is deleted below.
  local outside, heard = outsiders(line.channel, first)
  if outside ~= 0 or heard == 0 then
    return
  end
  local holder, token = first .. ':' .. place, fenced == '1' and tokenOf(line.counter, reads) or 0
  if type(token) == 'table' or record(line, holder, reads, lease) then
    return
  end
  if not send(line.key, line.channel .. ':' .. first, place, sent, micros, since, lease, token, secret) then
    redis.pcall('DEL', line.tag .. ':' .. holder .. ':rwlock_timeout:1')
    return
  end
  remove(line, first)
  return tonumber(lease), reads
end

-- freeOf returns how many permits the record of a lock leaves free.
local function freeOf(key)
  if redis.call('EXISTS', key) == 0 then
    return whole
  end
  local reads = redis.call('HEXISTS', key, 'mode') == 1 and redis.call('HGET', key, 'mode') == 'read'
  return reads and whole - 1 or 0
end

-- serve grants a free lock to the first manager of the line, or tells the managers for which permits are
-- free. free is what freeOf returns, if the caller knows it. serve returns the turn of the first manager,
-- which is for how many milliseconds it has the lock, or has time to ask, or nil if nobody is in the line;
-- and whether serve has granted the lock.
local function serve(key, free)
  local line = lineOf(key)
  free = free or freeOf(key)
  local lease, reads
  if free == whole then
    lease, reads = give(line)
  end
  if lease then
    if reads then
      tell(line, free - 1)
    end
    return lease, true
  end
  tell(line, free)
  local first, _, _, till = at(line, 0)
  return first and till - now, false
end

-- wanted returns how many permits the managers of the line need. It stops at more than most.
local function wanted(key, most)
  return ahead(lineOf(key), nil, most)
end

-- enter joins the line for n permits, if the manager wants that, and reports whether the manager has what
-- it wants of the line. If a key of the line may be at the other master of a slot that is moved, nobody joins.
local function enter(key, want, n)
  local manager, id, life, flags, note = string.match(want, '^(%S+) (%d+) (%d+) (%l*)(.*)$')
  local line = lineOf(key)
  if not manager or life == '0' then
    return true
  elseif type(redis.pcall('EXISTS', key, line.list, line.wants)) ~= 'number' then
    return false
  end
  if note ~= '' then
    note = table.concat({note, string.format('%.0f', micros), server()}, ' ')
  end
  join(line, manager, n, tonumber(id), tonumber(life), flags, note)
  return true
end

-- stay makes a write that changes nothing if the manager in want stands in the line. So later writes of the
-- script pass without memory.
local function stay(key, want)
  local manager, wants = string.match(want, '^%S+'), lineOf(key).wants
  if manager and redis.call('HEXISTS', wants, manager) == 1 then
    redis.call('HDEL', wants, '')
  end
end

-- depart leaves the line, if there is a manager in want. It returns what leave returns.
local function depart(key, want)
  local manager, id = string.match(want, '^(%S+) (%d+)')
  return manager and leave(lineOf(key), manager, tonumber(id))
end

-- refusal refuses n of the free permits to a manager if others come before it. The manager enters the
-- line, and the line is served. refusal returns the turn of the first manager, or for how long others have
-- the lock. It returns nil or false if the manager may take the lock: also if the manager can't stand in the
-- line, as clients of Redisson can't.
local function refusal(key, want, n, free)
  local manager, line = string.match(want, '^%S+'), lineOf(key)
  local needs, _, till, flags = positionOf(line, manager or '')
  local told = needs and n <= needs and lasts(till) and string.find(flags, 't') -- it may take them, whoever is before
  if told or ahead(line, manager, free - n) <= free - n then
    return
  end
  local entered, joined = pcall(enter, key, want, n)
  if not (entered and joined) then
    return
  end
  local ok, turn = pcall(serve, key, free)
  if redis.call('EXISTS', key) == 1 then -- by a grant, or others read
    return redis.call('PTTL', key)
  end
  if redis.pcall('LINDEX', line.list, 0) == manager then -- serve has found that nobody hears those before it
    return
  end
  return ok and turn
end

-- joinBehind joins the end of the line if want says so. It returns 2 if the manager stands in the line, else 1.
local function joinBehind(key, want)
  if not string.find(want, '^%S+ %d+ [1-9]') then
    return 1
  end
  local ok, joined = pcall(enter, key, want, whole)
  return ok and joined and 2 or 1
end

-- serveAfter serves the line of a lock that owner has given up, and had alone. The manager of owner stands in no
-- line: a late copy has joined.
local function serveAfter(owner, key, free)
  local line, manager = lineOf(key), string.match(owner, '^(.*):%d+$')
  if redis.pcall('HEXISTS', line.wants, manager) == 1 then
    pcall(remove, line, manager)
  end
  return serve(key, free)
end

-- released serves the line of a plain lock from which an owner was removed, and tells the clients that
-- stand in no line. It returns what release.lua returns.
local function released(key, channel, owner, want)
  local deleted = type(redis.pcall('DEL', key)) == 'number' -- any fields that are left are no holders
  local ok, turn, given = false, nil, false
  if deleted then
    ok, turn, given = pcall(serveAfter, owner, key, whole)
  end
  -- After a grant the lock is taken, and nobody needs to know.
  local reached = ok and given and 0 or publish(channel, ok and '00' or '000')
  return ok and turn and {reached, joinBehind(key, want)} or reached
end

-- yield leaves the line of a lock that the manager still wants, and serves the line.
local function yield(key, want)
  local manager = string.match(want, '^%S+')
  if not manager or redis.call('HEXISTS', lineOf(key).wants, manager) == 0 then
    return
  end
  depart(key, want)
  serve(key)
end
