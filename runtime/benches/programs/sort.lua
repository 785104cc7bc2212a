local state = 42
local xs = {}
for i = 1, 500000 do
  state = (state * 1103515245 + 12345) % 2147483648
  xs[#xs + 1] = state
end
table.sort(xs)
print(xs[1], xs[500000], xs[250001])
