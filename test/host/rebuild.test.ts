/** A rebuild of a real VM: another root disk, another instance, and a daemon that is killed in the middle. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { test } from 'node:test'
import { configure } from '../../lab/inside/configure.ts'
import { call, getVm, mutate, setPower, settled } from '../../lab/inside/controller.ts'
import { GUEST_IMAGES, guestImage, guestRequest } from '../../lab/inside/guest.ts'
import { crashDaemon, mainPid, sh } from '../../lab/inside/shell.ts'
import { typeInto, untilPrompt } from '../../lab/inside/type-into.ts'
import { until } from '../../lab/inside/until.ts'
import { crashWhenMade } from './crash-at.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'
import type { GuestImage } from '../../lab/inside/guest.ts'
import type { Vm } from '../../lab/inside/controller.ts'

const VM = 'rebuilt'
const PATH = `/v1/vms/${VM}`
const POOL = '/var/lib/vmhostd/pool'
const DISK = `${POOL}/disks/${VM}/disk.raw`
const NOTE = `${POOL}/disks/${VM}/disk.json`
const IMAGES = '/run/rebuild-images'

const digestOf = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex')

/** Makes a root image that has a folder of this name, where images may come from. */
async function imageWith(name: string): Promise<GuestImage> {
  const path = `${IMAGES}/${name}.raw`
  copyFileSync(`${GUEST_IMAGES}/rootfs.raw`, path)
  await sh('debugfs', '-w', '-R', `mkdir /${name}`, path)
  return { url: `file://${path}`, sha256: digestOf(path) }
}

const boot = (name: string): GuestImage => ({ ...guestImage(name), url: `file://${IMAGES}/${name}` })

let first: GuestImage
let second: GuestImage

sharedHost({
  make: async () => {
    mkdirSync(IMAGES, { recursive: true })
    await configure('storage', { local_images_directory: IMAGES })
    for (const name of ['vmlinuz', 'initrd.cpio.gz'])
      copyFileSync(`${GUEST_IMAGES}/${name}`, `${IMAGES}/${name}`)
    first = await imageWith('first')
    second = await imageWith('second')
    const image = { rootfs: first, kernel: boot('vmlinuz'), initrd: boot('initrd.cpio.gz') }
    await mutate('PUT', PATH, guestRequest({ image }))
    await settled(VM, 'running')
  },
  remove: async () => {
    await configure('storage', { local_images_directory: GUEST_IMAGES })
    rmSync(IMAGES, { recursive: true, force: true })
  },
})

const rebuildFrom = (rootfs: GuestImage): Promise<Vm> => mutate('POST', `${PATH}/rebuild`, { rootfs })
/** The initrd of the guest with a hole at its end, which the kernel skips: another image. */
function otherInitrd(): GuestImage {
  const path = `${IMAGES}/initrd-2`
  writeFileSync(path, Buffer.concat([readFileSync(`${IMAGES}/initrd.cpio.gz`), Buffer.alloc(512)]))
  return { url: `file://${path}`, sha256: digestOf(path) }
}

const rebuildOf = ({ observed }: Vm): unknown => Reflect.get(observed, 'rebuild')

/** Types a line once the shell listens. Returns the output from the line on. */
async function answerTo(line: string): Promise<string> {
  await untilPrompt(VM)
  const text = await typeInto(VM, line)
  return text.slice(text.lastIndexOf(line.slice(0, 10)))
}

/** Stops the VM after its guest has written a file. */
async function writeAndStop(): Promise<void> {
  await answerTo('echo kept >/root/mine; sync')
  await setPower(VM, 'stopped')
  await settled(VM, 'stopped')
}

story('a guest that is rebuilt boots from the other image, as another instance', {
  'a VM that runs is not rebuilt': async () => {
    const { status, body } = await call('POST', `${PATH}/rebuild`, { rootfs: second })
    assert.deepEqual([status, Reflect.get(body, 'code')], [409, 'vm_not_stopped'])
  },
  'an image that cannot be fetched leaves the disk, and the error says so': async () => {
    await writeAndStop()
    const before = statSync(DISK)
    renameSync(`${IMAGES}/second.raw`, `${IMAGES}/hidden.raw`)
    await rebuildFrom(second)
    await until('the fetch fails', async () => (await getVm(VM)).observed.error)
    assert.equal((await getVm(VM)).observed.state, 'stopped')
    assert.deepEqual([statSync(DISK).ino, statSync(DISK).mtimeMs], [before.ino, before.mtimeMs])
    renameSync(`${IMAGES}/hidden.raw`, `${IMAGES}/second.raw`)
  },
  'the rebuild goes on by itself, and the guest has the new disk and another instance id': async () => {
    const stopped = await settled(VM, 'stopped')
    assert.equal(rebuildOf(stopped), 1)
    await setPower(VM, 'running')
    await settled(VM, 'running')
    const shown = await answerTo(
      'echo /* /root/*; mount -o ro /dev/vdb /run/seed; cat /run/seed/meta-data; umount /run/seed',
    )
    assert.match(shown, /\bsecond\b/)
    assert.doesNotMatch(shown, /\bfirst\b|\bmine\b/)
    assert.match(shown, /instance-id: "rebuilt-\d+-2"/)
  },
})

test('a stopped VM says at once that it was given no kernel, and boots from another initrd on its old disk', async () => {
  await writeAndStop()
  await mutate('PUT', `${PATH}/boot`, { kernel: first })
  const error = await until('the kernel is judged', async () => (await getVm(VM)).observed.error)
  assert.match(error, /is an ext2, ext3 or ext4 file system; stop the VM and give it another kernel/)
  const initrd = otherInitrd()
  await mutate('PUT', `${PATH}/boot`, { kernel: boot('vmlinuz'), initrd, kernel_arguments: 'changed.once=1' })
  await settled(VM, 'stopped')
  assert.ok(existsSync(`${POOL}/images/${initrd.sha256}`), 'it is there before the start')
  await setPower(VM, 'running')
  await settled(VM, 'running')
  const args = await sh('ps', '-ww', '-o', 'args=', '-p', await mainPid(`vmhost-${VM}`))
  assert.match(args, new RegExp(`${initrd.sha256}.* changed\\.once=1`))
  assert.match(await answerTo('cat /root/mine'), /^kept/m)
})

test('a daemon that is killed at any moment of a rebuild loses neither disk, and finishes it', async () => {
  await writeAndStop()
  const done = Number(rebuildOf(await getVm(VM)) ?? 0)
  for (const [at, file] of [undefined, 'disk.raw', 'disk.json'].entries()) {
    const rebuild = done + 1 + at
    // A new file may have the inode number of a disk that is gone, but not that of the disk that it replaces.
    const { ino } = statSync(DISK)
    const crashed = file === undefined ? undefined : crashWhenMade(`${POOL}/disks/${VM}`, file)
    await rebuildFrom(at === 1 ? second : first)
    await (crashed ?? crashDaemon())
    const vm = await settled(VM, 'stopped')
    assert.equal(rebuildOf(vm), rebuild)
    assert.equal(Reflect.get(JSON.parse(readFileSync(NOTE, 'utf8')) as object, 'rebuild'), rebuild)
    assert.notEqual(statSync(DISK).ino, ino)
  }
  await setPower(VM, 'running')
  await settled(VM, 'running')
  assert.match(await answerTo('echo /*'), /\bfirst\b/)
})
