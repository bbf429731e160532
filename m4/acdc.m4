# SPDX-License-Identifier: Apache-2.0

# ACDC_NEED(VALUE, WHAT, PACKAGE)
# Notes that WHAT, of Debian's PACKAGE, is missing if VALUE is empty.
AC_DEFUN([ACDC_NEED],
  [AS_IF([test -z "$1"],
     [acdc_missing="$acdc_missing
    $2 (package $3)"
      acdc_missing_packages="$acdc_missing_packages $3"])])

# ACDC_HAVE_PKG(MODULE, HEADER)
# Sets acdc_have to yes if the library is there, by pkg-config or its header.
AC_DEFUN([ACDC_HAVE_PKG],
  [acdc_have=
   AS_IF([test -n "$PKG_CONFIG" && $PKG_CONFIG --exists $1 2>/dev/null],
     [acdc_have=yes],
     [AC_CHECK_HEADER([$2], [acdc_have=yes])])])

# ACDC_NEED_PKG(MODULE, HEADER, WHAT, PACKAGE, CONDITION)
AC_DEFUN([ACDC_NEED_PKG],
  [AS_IF([$5],
     [ACDC_HAVE_PKG([$1], [$2])
      ACDC_NEED([$acdc_have], [$3], [$4])])])

# ACDC_WANT_PKG(MODULE, HEADER, PACKAGE, FEATURE)
AC_DEFUN([ACDC_WANT_PKG],
  [ACDC_HAVE_PKG([$1], [$2])
   AS_IF([test -z "$acdc_have"],
     [acdc_wanted="${acdc_wanted:+$acdc_wanted, }$1 ($4)"
      acdc_wanted_packages="$acdc_wanted_packages $3"])])

# ACDC_REPORT_MISSING
# Ends configure if something is missing.
AC_DEFUN([ACDC_REPORT_MISSING],
  [AS_IF([test -n "$acdc_missing"],
     [AC_MSG_ERROR([missing:$acdc_missing
On Debian, as root:
    apt-get install$acdc_missing_packages
or everything that the build can use: build-aux/install-deps build])])])

# ACDC_OVS_CONFIGURE_ARGS
# OVS_CONFIGURE_ARGS := our own arguments, quoted for the shell, but for those
# that mean something else to Open vSwitch's configure, as AC_CONFIG_SUBDIRS
# does it.
AC_DEFUN([ACDC_OVS_CONFIGURE_ARGS],
  [OVS_CONFIGURE_ARGS=
   acdc_drop=
   eval "set x $ac_configure_args"
   shift
   for acdc_arg
   do
     AS_IF([test -n "$acdc_drop"], [acdc_drop=; continue])
     AS_CASE([$acdc_arg],
       [-cache-file | --cache-file | --cache-fil | -srcdir | --srcdir],
         [acdc_drop=yes; continue],
       [-cache-file=* | --cache-file=* | -srcdir=* | --srcdir=*], [continue],
       [--config-cache | -C | --disable-option-checking], [continue],
       [--with-dpdk | --with-dpdk=* | --without-dpdk], [continue],
       [--with-ovs-source=*], [continue],
       [--enable-usdt-probes | --enable-usdt-probes=*], [continue],
       [--runstatedir=* | PYTHON3=* | OVS_CONFIGURE_FLAGS=*], [continue])
     acdc_arg=`printf '%s\n' "$acdc_arg" | sed "s/'/'\\\\\\\\''/g"`
     OVS_CONFIGURE_ARGS="$OVS_CONFIGURE_ARGS '$acdc_arg'"
   done
   # Open vSwitch 3.1 has no use for runstatedir but a name of its own.
   AS_IF([test -n "$runstatedir" && test -z "$with_rundir"],
     [OVS_CONFIGURE_ARGS="$OVS_CONFIGURE_ARGS '--with-rundir=$runstatedir/openvswitch'"])
   AS_IF([test "$OVS_DPDK" != no],
     [OVS_CONFIGURE_ARGS="$OVS_CONFIGURE_ARGS --with-dpdk=$OVS_DPDK"])
   AS_IF([test "$OVS_USDT" = yes],
     [OVS_CONFIGURE_ARGS="$OVS_CONFIGURE_ARGS --enable-usdt-probes"])
   OVS_CONFIGURE_ARGS="$OVS_CONFIGURE_ARGS 'PYTHON3=$PYTHON3' $OVS_CONFIGURE_FLAGS"
   AC_SUBST([OVS_CONFIGURE_ARGS])])
