/** A reboot of a host with guests, from beside it: those that ran go on after it, and the others stay as they were. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { findLab, LAB_IN_ENVIRONMENT, labExec, LAB_NODE, LAB_POOL, labReboot } from '../../lab/lab.ts'
import { until } from '../../lab/inside/until.ts'
import { ensureQemuVersions, installQemu } from '../../lab/qemu-versions.ts'
import { story } from '../host/story.ts'
import type { LabState } from '../../lab/lab.ts'
import type { SeenGuests } from './guests.ts'

const labName = process.env[LAB_IN_ENVIRONMENT]
const found = labName === undefined ? undefined : findLab(labName)
const skip = found === undefined ? 'not beside a lab: ./dev test does that, as root' : false
const BOUND_MS = 240_000
const SHUTDOWN_BOUND_MS = 90_000

/** Undefined while the lab's distribution has one version only. */
const qemu = skip === false ? await ensureQemuVersions() : undefined

let lab: LabState | undefined = found
let before: SeenGuests | undefined

async function inLab(...argv: readonly string[]): Promise<string> {
  assert.ok(lab)
  const { code, stdout, stderr } = await labExec(lab, argv, { timeoutMs: BOUND_MS })
  assert.equal(code, 0, `${argv.join(' ')}: ${stderr}${stdout}`)
  return stdout.trim()
}

const guests = async (command: 'make' | 'look'): Promise<SeenGuests> =>
  JSON.parse(await inLab(LAB_NODE, '--no-warnings', '/src/test/reboot/guests.ts', command)) as SeenGuests

const daemonLog = (): Promise<string> =>
  inLab('journalctl', '--unit=vmhostd', '--boot=all', '--output=cat', '--no-pager')

const bootIds = ({ running }: SeenGuests): readonly string[] => running.map(({ bootId }) => bootId)

/** Returns the VMs whose saved state is in the pool now, as this machine sees it. */
function savedGuests(): readonly string[] {
  const disks = `/proc/${lab?.leader?.pid}/root${LAB_POOL}/disks`
  return readdirSync(disks).filter(
    (id) => id.startsWith('count-') && existsSync(`${disks}/${id}/saved/metadata.json`),
  )
}

/** Asserts that these guests go on after those: the same boots of their kernels, whose own clocks did not go back. */
function assertGoOn(after: SeenGuests, earlier: SeenGuests): void {
  assert.deepEqual(bootIds(after), bootIds(earlier))
  assert.deepEqual(after.states, earlier.states)
  for (const [index, { uptimeSeconds }] of after.running.entries())
    assert.ok(uptimeSeconds >= (earlier.running[index]?.uptimeSeconds ?? 0), 'a guest went back in time')
}

story(
  'guests go on after a reboot of the host',
  {
    'guests run, sleep, are paused and are stopped': async () => {
      assert.ok(lab)
      if (qemu !== undefined) await installQemu(lab, qemu.older)
      await inLab(LAB_NODE, '/src/lab/inside/install.ts')
      before = await guests('make')
    },
    'after a reboot, the guests that ran go on, and the others are as they were': async () => {
      assert.ok(lab && before)
      lab = await labReboot(lab, { boundMs: SHUTDOWN_BOUND_MS })
      const after = await guests('look')
      assertGoOn(after, before)
      for (const { wake } of after.running) {
        assert.ok(wake?.reason === 'host_booted' || wake?.reason === 'traffic', wake?.reason ?? 'no wake')
        assert.equal(wake.dropped_packets, 0)
      }
      assert.match(await daemonLog(), /"saved":8,"ended":0,.*guests ready for the shutdown/)
      before = after
    },
    'after an upgrade of QEMU while they run, and a second reboot, they go on again': async () => {
      assert.ok(lab && before)
      if (qemu !== undefined) await installQemu(lab, qemu.newer)
      lab = await labReboot(lab, { boundMs: SHUTDOWN_BOUND_MS })
      const after = await guests('look')
      assertGoOn(after, before)
      before = after
    },
    'after a loss of power in the middle of the saves, no guest that was saved is lost': async () => {
      assert.ok(lab && before)
      const { running } = before
      await inLab('systemctl', '--no-block', 'reboot')
      const saved = await until('some guests are saved', async () => {
        const all = savedGuests()
        return all.length > 0 ? all : undefined
      })
      lab = await labReboot(lab, { boundMs: SHUTDOWN_BOUND_MS, powerCut: true })
      const after = await guests('look')
      for (const [index, { bootId }] of after.running.entries())
        if (saved.includes(`count-${index + 1}`)) assert.equal(bootId, running[index]?.bootId)
      assert.deepEqual(after.states, before.states)
      before = after
    },
    'with on_shutdown = "kill", the guests boot again': async () => {
      assert.ok(lab && before)
      await inLab('sed', '-i', 's/^#*on_shutdown = .*/on_shutdown = "kill"/', '/etc/vmhostd/config.toml')
      await inLab('systemctl', 'restart', 'vmhostd')
      lab = await labReboot(lab, { boundMs: SHUTDOWN_BOUND_MS })
      const after = bootIds(await guests('look'))
      assert.deepEqual(
        after.filter((id) => bootIds(before ?? { running: [], states: {} }).includes(id)),
        [],
      )
    },
  },
  { skip },
)
