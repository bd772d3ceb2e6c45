export const MAINTAINER = 'the vmhostd authors <vmhostd@example.org>'

/**
 * Packages that the daemon and its helpers need on a host. This systemd version is the first that can keep a descriptor
 * store.
 */
const DEPENDS = [
  'init-system-helpers (>= 1.54)',
  'systemd (>= 254)',
  'dbus',
  'libatomic1',
  'libc6 (>= 2.28)',
  'libstdc++6',
  'libsystemd0 (>= 254)',
  'libbpf1',
  // systemd starts a unit only for a user in the user database; the daemon publishes its users through this module.
  'libnss-systemd',
  'iproute2',
  'nftables',
]

export type Architecture = { readonly deb: string; readonly qemu: string }

const ARCHITECTURES = {
  x64: { deb: 'amd64', qemu: 'qemu-system-x86' },
  arm64: { deb: 'arm64', qemu: 'qemu-system-arm' },
}

/** Debian's names for this machine's architecture, and for the monitor of it. */
export const architecture: Architecture = ARCHITECTURES[process.arch === 'arm64' ? 'arm64' : 'x64']

/** Renders the control file of the package: deb-control(5). */
export function renderControl(version: string, sizeKib: number): string {
  return [
    'Package: vmhostd',
    `Version: ${version}`,
    `Architecture: ${architecture.deb}`,
    `Maintainer: ${MAINTAINER}`,
    `Installed-Size: ${sizeKib}`,
    `Depends: ${[...DEPENDS, architecture.qemu].join(', ')}`,
    'Recommends: xfsprogs | btrfs-progs',
    'Section: admin',
    'Priority: optional',
    'Description: daemon that runs microVMs on one host',
    ' vmhostd runs microVMs under systemd and serves an HTTP API over mutual TLS.',
    ' Virtual machines are units of their own: they live on when the daemon stops,',
    ' crashes or is upgraded. vmhostctl is its client for people and scripts.',
    '',
  ].join('\n')
}
