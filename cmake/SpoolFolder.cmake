# Links a folder. Ops register themselves from static objects, so their archive is linked whole, everywhere: mixing both ways is an error.
function(spool_link_folder target scope folder)
  if(folder STREQUAL "ops")
    target_link_libraries(${target} ${scope} "$<LINK_LIBRARY:WHOLE_ARCHIVE,spool_ops>")
  else()
    target_link_libraries(${target} ${scope} spool_${folder})
  endif()
endfunction()

# spool_folder(NAME [DEPENDS folder...] [LINK libs...]): one library target a folder.
# Its headers are spelled <spool/NAME/x.h>, in the tree and installed. Each folder publishes an include directory of its own, so an
# include of a folder that is not among the dependencies does not build. <spool/NAME.h> includes all public headers of the folder
# (those directly in it; headers in subfolders are private).
set_property(GLOBAL PROPERTY SPOOL_FOLDERS "")

function(spool_folder name)
  cmake_parse_arguments(arg "" "" "DEPENDS;LINK" ${ARGN})
  set(source_dir "${PROJECT_SOURCE_DIR}/${name}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${source_dir}/*.cpp")
  file(GLOB headers CONFIGURE_DEPENDS "${source_dir}/*.h")
  if(NOT sources)
    return()  # nothing lives here yet
  endif()

  set(include_dir "${PROJECT_BINARY_DIR}/include/${name}")
  file(MAKE_DIRECTORY "${include_dir}/spool")
  file(CREATE_LINK "${source_dir}" "${include_dir}/spool/${name}" SYMBOLIC)
  set(umbrella "#pragma once\n")
  foreach(header IN LISTS headers)
    get_filename_component(file "${header}" NAME)
    string(APPEND umbrella "#include <spool/${name}/${file}>\n")
  endforeach()
  file(CONFIGURE OUTPUT "${include_dir}/spool/${name}.h" CONTENT "${umbrella}")

  add_library(spool_${name} STATIC ${sources})
  add_library(Spool::${name} ALIAS spool_${name})
  set_target_properties(spool_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(spool_${name} PUBLIC cxx_std_20)
  target_include_directories(spool_${name} PUBLIC "$<BUILD_INTERFACE:${include_dir}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  foreach(dependency IN LISTS arg_DEPENDS)
    spool_link_folder(spool_${name} PUBLIC ${dependency})
  endforeach()
  target_link_libraries(spool_${name} PRIVATE $<BUILD_INTERFACE:spool_options> Threads::Threads $<BUILD_INTERFACE:fmt::fmt-header-only> ${arg_LINK})

  install(TARGETS spool_${name} EXPORT SpoolTargets)
  install(FILES ${headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/spool/${name}")
  install(FILES "${include_dir}/spool/${name}.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/spool")
  set_property(GLOBAL APPEND PROPERTY SPOOL_FOLDERS ${name})
endfunction()

# The target Spool::spool and <spool/spool.h>: every folder at once.
function(spool_umbrella)
  get_property(folders GLOBAL PROPERTY SPOOL_FOLDERS)
  set(include_dir "${PROJECT_BINARY_DIR}/include/all")
  set(umbrella "#pragma once\n")
  add_library(spool INTERFACE)
  add_library(Spool::spool ALIAS spool)
  foreach(folder IN LISTS folders)
    string(APPEND umbrella "#include <spool/${folder}.h>\n")
    spool_link_folder(spool INTERFACE ${folder})
  endforeach()
  file(CONFIGURE OUTPUT "${include_dir}/spool/spool.h" CONTENT "${umbrella}")
  target_include_directories(spool INTERFACE "$<BUILD_INTERFACE:${include_dir}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  install(TARGETS spool EXPORT SpoolTargets)
  install(FILES "${include_dir}/spool/spool.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/spool")
  install(EXPORT SpoolTargets NAMESPACE Spool:: DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/Spool")
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/SpoolConfig.cmake" CONTENT
       "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\ninclude(\"\${CMAKE_CURRENT_LIST_DIR}/SpoolTargets.cmake\")\n" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/SpoolConfig.cmake" DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/Spool")
endfunction()
