-- grant.lua is in the scripts that grant by message: see Grants by message in fair.lua.

-- server returns the replication ID of the server, or '' if the user may not ask.
local replid
local function server()
  if not replid then
    local info = redis.pcall('INFO', 'replication')
    replid = type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or ''
  end
  return replid
end

-- tokenOf takes a fencing token, and returns it as text: a Lua number has 53 bits. A reader takes none, and
-- gets the last one that was taken. tokenOf returns an error if the counter is no number.
local function tokenOf(counter, reads)
  local last = reads and redis.pcall('GET', counter)
  if type(last) == 'string' then
    return last
  end
  local taken = redis.pcall('INCRBY', counter, 1)
  return type(taken) == 'number' and redis.pcall('GET', counter) or taken
end

-- send sets the end of a record that the script has just written, and publishes the grant. The script runs at
-- micros, and the script of the manager ran at since, in microseconds since 1970. send returns false if it
-- can't, or if nobody hears. Then the record is gone.
local function send(lock, to, place, text, micros, since, lease, token, secret)
  local grant = table.concat({place, text, string.format('%.0f', micros - since), lease, token}, ' ')
  -- The end counts from the same instant as the message, however long the script takes.
  local done = redis.pcall('PEXPIREAT', lock, string.format('%.0f', math.floor(micros / 1000) + lease))
  if done == 1 then
    done = redis.pcall('PUBLISH', to, grant .. ' ' .. redis.sha1hex(secret .. lock .. ' ' .. grant))
  end
  if done == 0 or type(done) == 'table' then
    redis.call('DEL', lock)
    return false
  end
  return true
end
