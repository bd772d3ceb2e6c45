import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { hashInputs } from '../tools/hash.ts'
import { withLock } from '../tools/lock.ts'
import { cachePath } from '../tools/paths.ts'
import { run, runChecked } from '../tools/process.ts'
import { publish } from '../tools/publish.ts'
import { step } from '../tools/step.ts'
import type { StepLog } from '../tools/step.ts'
import { buildBareGuest, ensureCompiler } from './bare-guest.ts'
import { renderCpio } from './cpio.ts'
import type { CpioEntry } from './cpio.ts'
import { collectModules } from './modules.ts'
import { sshServer } from './ssh-server.ts'
import type { KernelModule } from './modules.ts'
import type { CachedRoot } from './root.ts'
import { useCached } from './state.ts'

const SOURCES = path.join(import.meta.dirname, 'guest')
const INPUTS = ['guest.ts', 'bare-guest.ts', 'cpio.ts', 'modules.ts', 'ssh-server.ts', 'guest'].map((name) =>
  path.join(import.meta.dirname, name),
)

/**
 * Modules of Debian's cloud kernel that a guest needs: its disks, its network, random numbers from the host, a balloon
 * that returns unused memory, and NoCloud disks.
 */
const BOOT_MODULES = ['virtio_blk', 'virtio_net', 'virtio_rng', 'virtio_balloon']
const SEED_MODULES = ['isofs', 'nls_utf8']
/** Modules that report the power button of the machine to programs. */
const BUTTON_MODULES = ['button', 'evdev']

const DISK_MIB = 64
// Fixed, so that equal inputs make an equal disk with an equal digest.
const DISK_UUID = 'a1b2c3d4-0000-4000-8000-0000000d3300'

/**
 * Returns the folder with the images of the demo guest and the bare guest; builds them first if the cache lacks them.
 */
export async function ensureGuest(cached: CachedRoot): Promise<string> {
  const folder = path.join(cachePath('guests'), hashInputs(INPUTS, [cached.key, await ensureCompiler()]))
  if (!existsSync(folder)) {
    await withLock('guest', async () => {
      if (!existsSync(folder))
        await step('build the guests', (log) =>
          publish(folder, (building) => build({ cached, building, log })),
        )
    })
  }
  useCached(folder)
  return folder
}

type Building = { readonly cached: CachedRoot; readonly building: string; readonly log: StepLog }

async function build({ cached, building, log }: Building): Promise<void> {
  await buildBareGuest(building, log)
  copyFileSync(findKernel(cached.kernel), path.join(building, 'vmlinuz'))
  // Ubuntu makes kernels unreadable for other users, but the user of a virtual machine has to read this one.
  chmodSync(path.join(building, 'vmlinuz'), 0o644)
  const tree = await demoTree(cached.root)
  const collect = (names: string[]) => collectModules(cached.kernel, names, unxzIn(cached.root))
  const groups = {
    boot: await collect(BOOT_MODULES),
    seed: await collect(SEED_MODULES),
    button: await collect(BUTTON_MODULES),
  }
  const initrd: CpioEntry[] = [
    ...tree,
    { kind: 'folder', path: 'newroot' },
    { kind: 'folder', path: 'lib' },
    { kind: 'folder', path: 'lib/modules' },
    ...Object.entries(groups).flatMap(([name, modules]) => [
      ...modules.map((module) => file(`lib/modules/${module.name}.ko`, module.content)),
      file(`lib/modules/${name}`, loadOrder(modules)),
    ]),
    file('init', readFileSync(path.join(SOURCES, 'init')), 0o755),
  ]
  writeFileSync(path.join(building, 'initrd.cpio.gz'), gzipSync(renderCpio(initrd), { level: 9 }))
  // SSH is only on the disk: the kernel unpacks the initrd before anything else, and a host key needs a place to stay.
  await writeDisk(
    cached.root,
    [...tree, ...(await sshServer(cached.root))],
    path.join(building, 'rootfs.raw'),
  )
}

const loadOrder = (modules: KernelModule[]) => Buffer.from(modules.map(({ name }) => `${name}\n`).join(''))

function findKernel(kernel: string): string {
  const boot = path.join(kernel, 'boot')
  const name = readdirSync(boot).find((entry) => entry.startsWith('vmlinuz-'))
  if (name === undefined) throw new Error(`no kernel in ${boot}`)
  return path.join(boot, name)
}

const file = (name: string, content: Buffer, mode = 0o644): CpioEntry => ({
  kind: 'file',
  path: name,
  mode,
  content,
})

/** Returns the common part of initrd and disk: busybox under all its names, the demo's init and its page. */
async function demoTree(root: string): Promise<CpioEntry[]> {
  const folders = [
    'bin',
    'sbin',
    'etc',
    'dev',
    'proc',
    'sys',
    'run',
    'tmp',
    'root',
    'srv',
    'srv/www',
    'srv/www/cgi-bin',
  ]
  const applets = await runChecked(['chroot', root, 'busybox', '--list'])
  const source = (name: string) => readFileSync(path.join(SOURCES, name))
  return [
    ...folders.map((name): CpioEntry => ({ kind: 'folder', path: name })),
    file('bin/busybox', readFileSync(path.join(root, 'usr/bin/busybox')), 0o755),
    ...applets
      .split('\n')
      .filter((name) => name !== '' && name !== 'busybox')
      .map((name): CpioEntry => ({ kind: 'link', path: `bin/${name}`, target: 'busybox' })),
    file(
      'etc/passwd',
      Buffer.from('root::0:0:root:/root:/bin/sh\nguest:*:1000:1000:guest:/home/guest:/bin/sh\n'),
    ),
    file('etc/group', Buffer.from('root:x:0:\ntty:x:5:\nguest:x:1000:\n')),
    file('sbin/demo-init', source('demo-init'), 0o755),
    file('sbin/demo-agent', source('demo-agent'), 0o755),
    file('sbin/counter', source('counter'), 0o755),
    file('srv/www/cgi-bin/index.cgi', source('index.cgi'), 0o755),
  ]
}

/** Uses the tools of the lab's root to unpack and format, so that this machine does not need them. */
function unxzIn(root: string) {
  return async (packed: Buffer): Promise<Buffer> => {
    const chunks: Buffer[] = []
    const result = await run(['chroot', root, 'xz', '-dc'], {
      input: packed,
      onOutput: (chunk) => chunks.push(chunk),
    })
    if (result.code !== 0) throw new Error(`xz: ${result.stderr}`)
    return Buffer.concat(chunks)
  }
}

async function writeDisk(root: string, tree: readonly CpioEntry[], target: string): Promise<void> {
  const work = path.join(root, 'tmp/guest-disk')
  rmSync(work, { recursive: true, force: true })
  for (const entry of [{ kind: 'folder', path: '' } as const, ...tree]) {
    const place = path.join(work, 'tree', entry.path)
    if (entry.kind === 'folder') mkdirSync(place, { recursive: true })
    else if (entry.kind === 'file') writeFileSync(place, entry.content, { mode: entry.mode })
    else symlinkSync(entry.target, place)
  }
  const options = [
    '-q',
    '-t',
    'ext4',
    '-L',
    'demo',
    '-U',
    DISK_UUID,
    '-E',
    `hash_seed=${DISK_UUID},root_owner=0:0`,
  ]
  const argv = ['mke2fs', ...options, '-d', '/tmp/guest-disk/tree', '/tmp/guest-disk/disk', `${DISK_MIB}M`]
  await runChecked(['chroot', root, ...argv])
  renameSync(path.join(work, 'disk'), target)
  rmSync(work, { recursive: true })
}
