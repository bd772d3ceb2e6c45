/** A rebuild of a real VM: another root disk, another instance, and a daemon that is killed in the middle. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { test } from 'node:test'
import { configure } from '../../lab/inside/configure.ts'
import { call, getVm, mutate, setPower, settled } from '../../lab/inside/controller.ts'
import { GUEST_IMAGES, guestImage, guestRequest } from '../../lab/inside/guest.ts'
import { crashDaemon, sh } from '../../lab/inside/shell.ts'
import { typeInto } from '../../lab/inside/type-into.ts'
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
    const boot = (name: string): GuestImage => ({ ...guestImage(name), url: `file://${IMAGES}/${name}` })
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
const rebuildOf = ({ observed }: Vm): unknown => Reflect.get(observed, 'rebuild')

/** Types a line once the shell listens: it loses characters that come before. Returns the output from the line on. */
async function answerTo(line: string): Promise<string> {
  await typeInto(VM, 'true')
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

test('a daemon that is killed at any moment of a rebuild loses neither disk, and finishes it', async () => {
  await writeAndStop()
  const before = statSync(DISK)
  for (const [rebuild, file] of [
    [2, undefined],
    [3, 'disk.raw'],
    [4, 'disk.json'],
  ] as const) {
    const crashed = file === undefined ? undefined : crashWhenMade(`${POOL}/disks/${VM}`, file)
    await rebuildFrom(rebuild % 2 === 0 ? first : second)
    await (crashed ?? crashDaemon())
    const vm = await settled(VM, 'stopped')
    assert.equal(rebuildOf(vm), rebuild)
    assert.equal(Reflect.get(JSON.parse(readFileSync(NOTE, 'utf8')) as object, 'rebuild'), rebuild)
    assert.notEqual(statSync(DISK).ino, before.ino)
  }
  await setPower(VM, 'running')
  await settled(VM, 'running')
  assert.match(await answerTo('echo /*'), /\bfirst\b/)
})
