#pragma once
// Sums of products in Einstein's notation.
#include <spool/tensor/tensor.h>

#include <string_view>

namespace spool {

/// `einsum("bhqd,bhkd->bhqk", {q, k})`: one letter (a–z, A–Z) an axis, operands separated by commas. An axis is summed over when its letter
/// is not in the output; a letter twice in one operand takes the diagonal; "..." stands for the axes that are not named, aligned at the end
/// and broadcast as in NumPy. Without "->" the output is "..." and the letters that occur once, in alphabetical order, as in NumPy and
/// PyTorch. Blanks count for nothing. Operands of one float type; all axes of a letter have one size (only "..." broadcasts).
///
/// Made of other ops, so it keeps what they keep, and has gradients of any order: operands are joined from left to right, each pair by
/// matmul where an axis is summed over and by mul where none is, after sums over axes that nothing else names. matmul reads operands where
/// they lie, unless one side sums over, or keeps, several axes that memory does not let be merged into one: then it reads a copy.
/// Order the operands so that small results come first. ShapeError names the letter, its sizes and operands, or the part of the
/// equation that does not fit.
Tensor einsum(std::string_view equation, const Tensors& operands);

}  // namespace spool
