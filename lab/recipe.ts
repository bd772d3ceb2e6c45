import { readFileSync } from 'node:fs'

/** The ingredients of a lab's root. A change here makes a new cached root. */
export interface Recipe {
  readonly origin: 'Debian' | 'Ubuntu'
  readonly suite: string
  readonly components: string
  readonly packages: readonly string[]
  /** One of the packages. */
  readonly qemuPackage: string
  /** Fetched and unpacked for the guests, never installed: a lab runs on the kernel of its machine. */
  readonly kernelPackage: string
  /** Units that have no work in a lab and would only slow its boot or disturb it. */
  readonly masked: readonly string[]
}

const PACKAGES = [
  // the host the daemon is made for
  'systemd',
  'systemd-sysv',
  'dbus',
  'iproute2',
  'nftables',
  'kmod',
  'procps',
  'libsystemd0',
  'libnss-systemd',
  'libbpf1',
  'libatomic1',
  'xfsprogs',
  'btrfs-progs',
  'e2fsprogs',
  'ca-certificates',
  // what tests and people look at it with
  'curl',
  'openssl',
  'iputils-ping',
  'less',
  'tmux',
  'zstd',
  'xorriso',
  // an object store: its servers are modules of one package, run by themselves
  'python3-swift',
  // what guests are made of
  'busybox-static',
  'dropbear-bin',
  'xz-utils',
]

const MASKED = [
  'apt-daily.timer',
  'apt-daily-upgrade.timer',
  'console-getty.service',
  'container-getty@.service',
  'dpkg-db-backup.timer',
  'e2scrub_all.timer',
  'e2scrub_reap.service',
  'fstrim.timer',
  'getty.target',
  'getty@.service',
  'serial-getty@.service',
  'systemd-logind.service',
  'systemd-networkd.service',
  'systemd-networkd.socket',
  'systemd-resolved.service',
  'systemd-timesyncd.service',
  'xfs_scrub_all.timer',
]

const QEMU = { x64: 'qemu-system-x86', arm64: 'qemu-system-arm' }
const DEBIAN_KERNEL = { x64: 'linux-image-cloud-amd64', arm64: 'linux-image-cloud-arm64' }

/** Reads one value of an os-release file (os-release(5)). */
function osRelease(key: string, text: string): string {
  return new RegExp(`^${key}="?([^"\n]*)"?$`, 'm').exec(text)?.[1] ?? ''
}

/** The recipe for a lab on this machine: Debian 13 on any Debian, Ubuntu 24.04 on any Ubuntu. */
export function recipeForThisMachine(release = readFileSync('/etc/os-release', 'utf8')): Recipe {
  const arch = process.arch === 'arm64' ? 'arm64' : 'x64'
  const families = [osRelease('ID', release), ...osRelease('ID_LIKE', release).split(' ')]
  if (families.includes('ubuntu')) {
    return {
      origin: 'Ubuntu',
      suite: 'noble',
      components: 'main,universe',
      packages: [...PACKAGES, QEMU[arch], 'linux-tools-common'],
      qemuPackage: QEMU[arch],
      kernelPackage: 'linux-image-virtual',
      masked: MASKED,
    }
  }
  if (!families.includes('debian')) throw new Error('the lab is built on Debian and Ubuntu machines only')
  return {
    origin: 'Debian',
    suite: 'trixie',
    components: 'main',
    packages: [...PACKAGES, QEMU[arch], 'bpftool'],
    qemuPackage: QEMU[arch],
    kernelPackage: DEBIAN_KERNEL[arch],
    masked: MASKED,
  }
}
