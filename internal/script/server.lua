-- server.lua is in the scripts that grant by message.

-- server returns the replication ID of the server, or '' if the user may not ask.
local replid
local function server()
  if not replid then
    local info = redis.pcall('INFO', 'replication')
    replid = type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or ''
  end
  return replid
end
