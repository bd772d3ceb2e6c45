/** The disk of a VM through the API of the installed daemon: the request, the guest's view, and the counters. */
import assert from 'node:assert/strict'
import { existsSync, statSync } from 'node:fs'
import { test } from 'node:test'
import { configure } from '../../lab/inside/configure.ts'
import { call, getVm, mutate, remove, settled } from '../../lab/inside/controller.ts'
import { guestImage, guestRequest } from '../../lab/inside/guest.ts'
import { mainPid, sh } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'
import type { Vm } from '../../lab/inside/controller.ts'

const ID = 'grower'
const FILE = `/var/lib/vmhostd/pool/disks/${ID}/disk.raw`
const MIB = 1024 * 1024

sharedHost({
  make: async () => {
    await configure('log', { level: 'debug' })
    await mutate('PUT', `/v1/vms/${ID}`, guestRequest({ power: 'stopped' }))
    await settled(ID, 'stopped')
  },
  remove: () => configure('log', { level: undefined }),
})

test('the log line about a new disk has the VM, the operation and the step that made it', async () => {
  const log = await sh('journalctl', '--unit=vmhostd', '--output=cat', '--grep=disk made')
  const line = log
    .split('\n')
    .filter((text) => text.startsWith('{'))
    .map((text) => JSON.parse(text) as Record<string, unknown>)
    .findLast((entry) => entry['vm_id'] === ID)
  assert.equal(line?.['step'], 'storage.ensure-disk')
  assert.match(String(line?.['operation_id']), /^op-/)
})

/** Returns the views of the disk once the VM is as desired. */
async function diskOnce(state: string, disk: object): Promise<unknown> {
  await mutate('PUT', `/v1/vms/${ID}/disk`, disk)
  const { observed } = await settled(ID, state)
  return (observed as Vm['observed'] & { disk?: unknown }).disk
}

story('a disk grows while its VM is stopped and while it runs, and its guest uses it', {
  'a disk grows while the VM is stopped, and its guest sees it from the start': async () => {
    assert.deepEqual(await diskOnce('stopped', { size_mib: 160 }), { size_mib: 160 })
    assert.equal(statSync(FILE).size, 160 * MIB)
    await mutate('PUT', `/v1/vms/${ID}/power`, { state: 'running' })
    const { observed } = await settled(ID, 'running')
    assert.deepEqual((observed as { disk?: unknown }).disk, { size_mib: 160, guest_size_mib: 160 })
  },
  'a disk grows and is limited under a running guest, which is not restarted': async () => {
    const pid = await mainPid(`vmhost-${ID}`)
    const disk = { size_mib: 192, iops_max: 500, mib_per_second_max: 20 }
    assert.deepEqual(await diskOnce('running', disk), { size_mib: 192, guest_size_mib: 192 })
    assert.equal(statSync(FILE).size, 192 * MIB)
    assert.match(await sh('vmhostd', 'plan', ID), /^settled$/m)
    assert.deepEqual(await diskOnce('running', { iops_max: null, mib_per_second_max: null }), {
      size_mib: 192,
      guest_size_mib: 192,
    })
    assert.equal(await mainPid(`vmhost-${ID}`), pid)
  },
  'a disk never shrinks': async () => {
    const { status, body } = await call('PUT', `/v1/vms/${ID}/disk`, { size_mib: 191 })
    assert.deepEqual([status, (body as unknown as { code: string }).code], [422, 'disk_shrink'])
    assert.equal(statSync(FILE).size, 192 * MIB)
  },
  "a guest's reads from its disk are counted": async () => {
    await until<true>('the guest has mounted its disk', async () => {
      const { body } = await call('GET', `/v1/vms/${ID}/counters`)
      const { disk } = body as unknown as { disk: { read_operations: number; read_bytes: number } }
      return disk.read_operations > 0 && disk.read_bytes > 0 ? true : undefined
    })
  },
})

test('a VM whose kernel and rootfs are swapped says so, gets no disk, and can be deleted', async () => {
  const id = 'swapped'
  const [rootfs, kernel] = [guestImage('vmlinuz'), guestImage('rootfs.raw')]
  await mutate('PUT', `/v1/vms/${id}`, guestRequest({ image: { rootfs, kernel } }))
  const error = await until(`${id} says what its images are`, async () => {
    const { observed } = await getVm(id)
    return observed.fault?.code === 'image_unsuitable' ? observed.error : undefined
  })
  for (const words of [
    `the kernel image ${kernel.sha256} is an ext2, ext3 or ext4 file system`,
    `the rootfs image ${rootfs.sha256} is a Linux kernel`,
  ])
    assert.ok(error.includes(words), error)
  assert.ok(!existsSync(`/var/lib/vmhostd/pool/disks/${id}/disk.raw`))
  await remove(id)
})
