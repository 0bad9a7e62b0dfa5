//! NumPy's .npy files: one tensor of plain numbers, version 1 to 3, C or Fortran order read, C order written.
