-- exceptions.lua is in the scripts that renew several leases one by one.

-- exceptions calls renew for each of n leases. It returns an array with the position of each lease for which
-- renew returns false or finds no lock, and with {position, text} for each other error.
local function exceptions(n, renew)
  local out = {}
  for i = 1, n do
    local ok, renewed = pcall(renew, i)
    local text = not ok and (type(renewed) == 'table' and renewed.err or tostring(renewed))
    if text and not string.find(text, 'WRONGTYPE', 1, true) then
      out[#out + 1] = {i, text}
    elseif not ok or not renewed then
      out[#out + 1] = i
    end
  end
  return out
end
