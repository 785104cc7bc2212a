def safe(board, row, col):
    for r in range(row):
        c = board[r]
        if c == col or c - r == col - row or c + r == col + row: return False
    return True
def place(board, row, n):
    if row == n: return 1
    board = list(board)
    count = 0
    for col in range(n):
        if safe(board, row, col):
            board[row] = col
            count = count + place(board, row + 1, n)
    return count
print(place([0] * 8, 0, 8))
