/** The loss of a whole pool: the host goes on with another one, and its VMs are rebuilt or deleted. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, rmdirSync, rmSync } from 'node:fs'
import { getVm, mutate, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { guestImage, guestRequest } from '../../lab/inside/guest.ts'
import { ready, sh } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'
import type { Vm } from '../../lab/inside/controller.ts'

const POOL = '/var/lib/vmhostd/pool'
/** Where the first pool is mounted while it is lost. */
const KEPT = '/run/lost-pool'
const ADDRESS = '192.0.2.60'
const VMS = ['rebuilt', 'deleted'] as const

sharedHost({
  make: async () => {
    await mutate('PUT', '/v1/vms/rebuilt', guestRequest({ network: { ipv4_address: ADDRESS } }))
    await mutate('PUT', '/v1/vms/deleted', guestRequest())
    for (const id of VMS) await settled(id, 'running')
    await setPower('deleted', 'stopped')
    await settled('deleted', 'stopped')
  },
  remove: async () => {
    if (!existsSync(KEPT)) return
    await sh('systemctl', 'stop', 'vmhostd')
    for (const id of VMS) rmSync(`${KEPT}/disks/${id}`, { recursive: true, force: true })
    rmSync(POOL, { recursive: true, force: true })
    mkdirSync(POOL)
    await sh('mount', '--bind', KEPT, POOL)
    await sh('umount', '--lazy', KEPT)
    rmdirSync(KEPT)
    await sh('vmhostd', 'setup', '--replace-pool')
    await sh('systemctl', 'start', 'vmhostd')
    await ready()
  },
})

const misses = (id: string): Promise<Vm> =>
  until(`${id} misses its disk`, async () => {
    const vm = await getVm(id)
    return vm.observed.fault?.code === 'disk_missing' ? vm : undefined
  })

const answers = (): Promise<true> =>
  until<true>('the guest answers', async () => {
    await sh('ping', '-c', '1', '-W', '1', ADDRESS)
    return true
  })

story('a host whose pool is lost goes on with another one', {
  'set-up makes no pool while that of the records is out of sight': async () => {
    // As after a boot without the disk of the pool: no guest runs.
    await sh('systemctl', 'stop', 'vmhostd')
    await sh('systemctl', 'stop', 'vmhost-rebuilt')
    mkdirSync(KEPT)
    await sh('mount', '--bind', POOL, KEPT)
    await sh('mount', '--make-private', KEPT)
    await sh('umount', '--lazy', POOL)
    await assert.rejects(sh('vmhostd', 'setup'), /is not a pool, and the records of this host are of pool/)
  },
  'it makes one on request, and the VMs show that their disks are missing': async () => {
    assert.match(
      await sh('vmhostd', 'setup', '--replace-pool'),
      /changed .*VMs on record, without their disks: 2/,
    )
    await sh('systemctl', 'start', 'vmhostd')
    await ready()
    await misses('rebuilt')
  },
  'a VM is deleted to the end': () => remove('deleted'),
  'a VM is rebuilt, and its guest runs': async () => {
    await setPower('rebuilt', 'stopped')
    await settled('rebuilt', 'stopped')
    await mutate('POST', '/v1/vms/rebuilt/rebuild', { rootfs: guestImage('rootfs.raw') })
    await setPower('rebuilt', 'running')
    await settled('rebuilt', 'running')
    await answers()
  },
})
