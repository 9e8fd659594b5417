# Threads of the kernels. Without OpenMP they run on one. The thread sanitizer does not see the barriers of
# libgomp and would report every result read after a parallel region.
option(SPP_OPENMP "Use OpenMP when the compiler has it" ON)
if(TARGET spp_kernels AND SPP_OPENMP AND NOT SPP_SANITIZE MATCHES "thread")
  find_package(OpenMP QUIET COMPONENTS C)
  if(OpenMP_C_FOUND)
    target_link_libraries(spp_kernels PUBLIC OpenMP::OpenMP_C)
  else()
    message(STATUS "spplan: openmp not used: kernels run on one thread a rank")
  endif()
endif()

# cuBLAS is loaded when it is first asked for, from where the system finds it or from the toolkit of this build.
if(SPP_CUDA_TARGET)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/kernels/cuda/blas.cu PROPERTIES
    COMPILE_DEFINITIONS "SPP_CUDA_LIBRARIES=\"${CUDAToolkit_LIBRARY_DIR}\"")
  target_link_libraries(spp_kernels PUBLIC ${CMAKE_DL_LIBS})
endif()
