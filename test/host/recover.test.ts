/** A host whose records are lost: its disks get records again, under a guest that runs and one that sleeps. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bareRequest, firstEcho, lifeOf, makeBare, udpEcho } from '../../lab/inside/bare.ts'
import { call, getVm, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { mainPid, ready, sh } from '../../lab/inside/shell.ts'
import { asleep, sleepAfter, sleeper } from '../../lab/inside/sleepers.ts'
import { skipWithoutBareGuest } from './bare-guest-stage.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'

const STATE = '/var/lib/vmhostd'
const MEMORY_MIB = 128
const runs = sleeper('runs', 50)
const sleeps = sleeper('sleeps', 51)
const off = sleeper('off', 52)

let folder: string
const at = (name: string): string => join(folder, name)
const recover = (...args: readonly string[]): Promise<string> => sh('vmhostd', 'recover', ...args)

function removeRecords(): void {
  for (const name of readdirSync(STATE)) if (name.startsWith('vmhostd.db')) rmSync(join(STATE, name))
}

sharedHost({
  make: () => {
    folder = mkdtempSync(join(tmpdir(), 'recover-'))
  },
  remove: () => {
    rmSync(folder, { recursive: true, force: true })
    for (const { id } of [runs, sleeps, off])
      rmSync(`${STATE}/pool/disks/${id}`, { recursive: true, force: true })
  },
})

let pid = ''
let [life, lifeAsleep] = ['', '']

story(
  'VMs whose records are lost get them again, and go on',
  {
    'a host with guests that run, sleep and are off loses its records': async () => {
      await makeBare(runs, { memoryMib: MEMORY_MIB })
      await makeBare(sleeps, { memoryMib: MEMORY_MIB })
      await makeBare(off, { memoryMib: MEMORY_MIB })
      ;[life, lifeAsleep] = [await lifeOf(runs.id), await lifeOf(sleeps.id)]
      await setPower(off.id, 'stopped')
      await settled(off.id, 'stopped')
      await sleepAfter(sleeps.id, 2, MEMORY_MIB)
      await asleep(sleeps.id)
      await sh('vmhostd', 'backup', at('backup'))
      pid = await mainPid(`vmhost-${runs.id}`)
      await sh('systemctl', 'stop', 'vmhostd')
      removeRecords()
      await sh('systemctl', 'start', 'vmhostd')
      await ready()
      assert.equal((await call('GET', `/v1/vms/${runs.id}`)).status, 404)
      assert.equal(await mainPid(`vmhost-${runs.id}`), pid)
    },
    'beside the running daemon, the disks are listed with what is known, and a request is drafted':
      async () => {
        const listed = await recover()
        assert.match(listed, /runs-50: disk of 64 MiB, .*its guest runs/)
        assert.match(listed, /sleeps-51: .*its guest sleeps, with 128 MiB/)
        assert.match(listed, /off-52: .*no guest/)
        const draft = JSON.parse(await recover(sleeps.id)) as { compute: { memory_mib: number } }
        assert.equal(draft.compute.memory_mib, MEMORY_MIB)
        writeFileSync(at('runs.json'), JSON.stringify(bareRequest(runs, { memoryMib: MEMORY_MIB })))
        assert.match(await recover(runs.id, '--request', at('runs.json'), '--dry-run'), /nothing was changed/)
        await assert.rejects(recover(runs.id, '--request', at('runs.json')), /another vmhostd works on/)
      },
    'they get their records from requests and from a backup': async () => {
      await sh('systemctl', 'stop', 'vmhostd')
      await recover(runs.id, '--request', at('runs.json'))
      await assert.rejects(recover(runs.id, '--request', at('runs.json')), /it has a record/)
      await recover(sleeps.id, '--from', at('backup'))
      writeFileSync(at('off.json'), JSON.stringify(bareRequest(off, { memoryMib: MEMORY_MIB })))
      await recover(off.id, '--request', at('off.json'))
      assert.match(await recover(), /every disk in the pool has a record/)
      await sh('systemctl', 'start', 'vmhostd')
      await ready()
    },
    'the guest that runs is taken over, with its console and its network': async () => {
      await settled(runs.id, 'running')
      assert.equal(await mainPid(`vmhost-${runs.id}`), pid)
      assert.equal(await lifeOf(runs.id), life)
      await udpEcho(runs.ipv4)
    },
    'the guest that slept wakes with its memory': async () => {
      assert.equal((await getVm(sleeps.id)).observed.state, 'sleeping')
      await udpEcho(sleeps.ipv4)
      assert.equal(await lifeOf(sleeps.id), lifeAsleep)
    },
    'the VM that was off stays off, and boots from its disk': async () => {
      await settled(off.id, 'stopped')
      await setPower(off.id, 'running')
      await settled(off.id, 'running')
      await firstEcho(off.ipv4)
    },
    'they are deleted like any others': async () => {
      for (const { id } of [runs, sleeps, off]) await remove(id)
      assert.match(await recover(), /every disk in the pool has a record/)
    },
  },
  { skip: skipWithoutBareGuest },
)
