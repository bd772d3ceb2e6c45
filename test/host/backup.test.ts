/** A backup of the running daemon, and older records that are put back under guests that run and sleep. */
import assert from 'node:assert/strict'
import { globSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { lifeOf, makeBare, udpEcho } from '../../lab/inside/bare.ts'
import { call, getVm, setPower, settled } from '../../lab/inside/controller.ts'
import { mainPid, ready, sh } from '../../lab/inside/shell.ts'
import { asleep, sleepAfter, sleeper } from '../../lab/inside/sleepers.ts'
import { skipWithoutBareGuest } from './bare-guest-stage.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'

const STATE = '/var/lib/vmhostd'
const MEMORY_MIB = 128
const kept = sleeper('kept', 40)
const sleepy = sleeper('sleepy', 41)
/** Stopped at the backup, and started since. */
const started = sleeper('started', 42)
/** Created since the backup. */
const younger = sleeper('younger', 43)

let folder: string
const file = (): string => join(folder, 'host.backup')
const pidOf = (id: string): Promise<string> => mainPid(`vmhost-${id}`)

/** Runs `vmhostd restore`; a refusal is an answer too. */
async function restore(...options: readonly string[]): Promise<{ status: number; text: string }> {
  try {
    return { status: 0, text: await sh('vmhostd', 'restore', file(), ...options) }
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string }
    return { status: code, text: stdout + stderr }
  }
}

/** Writes into the records that a VM was released to another host, or that it was not; the daemon is stopped. */
function setDeparture(id: string, departure: object | undefined): void {
  const db = new DatabaseSync(`${STATE}/vmhostd.db`)
  try {
    const text = departure === undefined ? null : JSON.stringify(departure)
    db.prepare('UPDATE vms SET departure = ? WHERE id = ?').run(text, id)
  } finally {
    db.close()
  }
}

sharedHost({
  make: () => {
    folder = mkdtempSync(join(tmpdir(), 'backup-'))
  },
  remove: () => {
    rmSync(folder, { recursive: true, force: true })
    rmSync(`${STATE}/copies`, { recursive: true, force: true })
    for (const { id } of [started, younger])
      rmSync(`${STATE}/pool/disks/${id}`, { recursive: true, force: true })
  },
})

const pids = new Map<string, string>()
let life = ''

story(
  'older records that are put back end no guest without the word of the operator',
  {
    'a backup is made while the daemon and its guests run': async () => {
      await makeBare(kept)
      await makeBare(sleepy, { memoryMib: MEMORY_MIB })
      life = await lifeOf(sleepy.id)
      await makeBare(started)
      await setPower(started.id, 'stopped')
      await settled(started.id, 'stopped')
      await sh('vmhostd', 'backup', file())
      assert.equal(statSync(file()).mode & 0o777, 0o600)
      await assert.rejects(sh('vmhostd', 'backup', file()), /--replace/)
      await sh('vmhostd', 'backup', file(), '--replace')
    },
    'meanwhile one VM is created, one started, and one falls asleep': async () => {
      await makeBare(younger)
      await setPower(started.id, 'running')
      await settled(started.id, 'running')
      await sleepAfter(sleepy.id, 2, MEMORY_MIB)
      await asleep(sleepy.id)
      for (const { id } of [kept, started, younger]) pids.set(id, await pidOf(id))
    },
    'a dry run beside the running daemon says what would happen, and changes nothing': async () => {
      const { status, text } = await restore('--dry-run')
      assert.equal(status, 1)
      assert.match(text, /kept-40 +stays +its guest runs/)
      assert.match(text, /sleepy-41 +stays +its guest is asleep/)
      assert.match(text, /started-42 +ENDS +its guest runs, and the record says stopped/)
      assert.match(text, /younger-43 +alone +its guest runs on, without a record/)
      assert.equal((await getVm(younger.id)).observed.state, 'running')
    },
    'nothing is put back while the daemon runs, or without a word about each guest that would end':
      async () => {
        assert.match((await restore('--end', started.id)).text, /another vmhostd works on/)
        await sh('systemctl', 'stop', 'vmhostd')
        const { status, text } = await restore()
        assert.equal(status, 1)
        assert.match(text, /nothing is put back, because started-42 would lose/)
        assert.deepEqual(globSync(`${STATE}/copies/before-restore*`), [])
      },
    'a VM that was released to another host since is put back by no word': async () => {
      setDeparture(kept.id, { id: 'move-1', node: 'host-2', mode: 'live', stage: 'released', sinceMs: 1 })
      const { status, text } = await restore('--end', started.id, '--end', kept.id)
      setDeparture(kept.id, undefined)
      assert.equal(status, 1, text)
      assert.match(text, /kept-40 +MOVED +it has moved to host-2 since/)
      assert.deepEqual(globSync(`${STATE}/copies/before-restore*`), [])
    },
    'the records are put back without the VM that is left out, and no guest has ended': async () => {
      const { status, text } = await restore('--leave-out', started.id)
      assert.equal(status, 0, text)
      await sh('systemctl', 'start', 'vmhostd')
      await ready()
      await settled(kept.id, 'running')
      for (const { id } of [kept, started, younger]) assert.equal(await pidOf(id), pids.get(id), id)
      for (const { id } of [started, younger]) assert.equal((await call('GET', `/v1/vms/${id}`)).status, 404)
    },
    'the guest that slept wakes with its memory': async () => {
      await udpEcho(sleepy.ipv4)
      assert.equal(await lifeOf(sleepy.id), life)
    },
    'a file of the host that is gone is put back, and one that is there is kept': async () => {
      await sh('systemctl', 'stop', 'vmhostd')
      rmSync('/etc/vmhostd/tls/server.key')
      const { status, text } = await restore('--leave-out', started.id)
      assert.equal(status, 0, text)
      assert.match(text, /server\.key +put back/)
      assert.match(text, /server\.crt +is as in the backup/)
      assert.equal(statSync('/etc/vmhostd/tls/server.key').mode & 0o777, 0o600)
      await sh('systemctl', 'start', 'vmhostd')
      await ready()
    },
  },
  { skip: skipWithoutBareGuest },
)
