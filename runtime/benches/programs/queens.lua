local function safe(board, row, col)
  for r = 0, row - 1 do
    local c = board[r]
    if c == col or c - r == col - row or c + r == col + row then return false end
  end
  return true
end
local function copy(b) local out = {} for i = 0, 7 do out[i] = b[i] end return out end
local function place(board, row, n)
  if row == n then return 1 end
  board = copy(board)
  local count = 0
  for col = 0, n - 1 do
    if safe(board, row, col) then
      board[row] = col
      count = count + place(board, row + 1, n)
    end
  end
  return count
end
local b = {} for i = 0, 7 do b[i] = 0 end
print(place(b, 0, 8))
