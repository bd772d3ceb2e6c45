/** Commands that an operator may run on the daemon's unit and its package; no guest must end because of them. */
import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { call, closeController, getVm, mutate, settled } from '../../lab/inside/controller.ts'
import { echo } from '../../lab/inside/first-packets.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { installPackage, mainPid, ready, sh, unitProperty } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { sharedHost } from './shared-host.ts'
import type { Vm } from '../../lab/inside/controller.ts'

/** Two guests, because the store must keep each console by its name. */
const GUESTS = { one: '192.0.2.61', two: '192.0.2.62' } as const
const UNIT_FILE = '/etc/systemd/system/vmhostd.service'
const pids = new Map<string, string>()

/** The part of `consoles` in GET /v1/sync that is read here. */
type Consoles = {
  readonly protected: number
  readonly unprotected: readonly string[]
  readonly descriptor_store_available: boolean
}

sharedHost({
  make: async () => {
    for (const [id, address] of Object.entries(GUESTS))
      await mutate('PUT', `/v1/vms/${id}`, guestRequest({ network: { ipv4_address: address } }))
    for (const [id, address] of Object.entries(GUESTS)) {
      await settled(id, 'running')
      await until(`${id} answers`, () => answers(address))
      pids.set(id, await mainPid(`vmhost-${id}`))
    }
  },
  remove: () => putUnitBack(),
})

const systemctl = (...words: readonly string[]): Promise<string> => sh('systemctl', ...words)

const answers = async (address: string): Promise<true> => {
  await sh('ping', '-c', '1', '-W', '1', address)
  return true
}

/**
 * Checks that the guests run as the same processes, and that systemd still keeps their consoles after a reload of all
 * units.
 */
async function assertGuestsLive(): Promise<void> {
  await systemctl('daemon-reload')
  assert.equal(await unitProperty('vmhostd', 'NFileDescriptorStore'), String(pids.size))
  for (const [id, address] of Object.entries(GUESTS)) {
    assert.equal(await mainPid(`vmhost-${id}`), pids.get(id), `${id} was ended`)
    await echo(address)
  }
}

/** Checks that a daemon that is started now takes the guests over, with their consoles. */
async function assertAdopted(): Promise<void> {
  closeController()
  await ready()
  await assertGuestsLive()
  const { consoles } = (await call('GET', '/v1/sync')).body as unknown as { consoles: Consoles }
  assert.equal(consoles.descriptor_store_available, true)
  assert.deepEqual([consoles.protected, consoles.unprotected], [pids.size, []])
  for (const id of Object.keys(GUESTS)) assert.match(await sh('vmhostd', 'plan', id), /settled/)
}

/** Removes the traces of a gesture. */
async function putUnitBack(): Promise<void> {
  // The package, and so its unit, may be gone.
  if (!existsSync(UNIT_FILE)) return
  await systemctl('unmask', '--runtime', 'vmhostd')
  await systemctl('revert', 'vmhostd')
  await systemctl('enable', 'vmhostd')
}

/** Restores the package's set-up: enabled and running. */
async function putBack(): Promise<void> {
  await putUnitBack()
  await systemctl('start', 'vmhostd')
  await assertAdopted()
}

const isStopped = async (): Promise<boolean> => (await mainPid('vmhostd')) === '0'

/** Gestures that systemd carries out, and whether each stops the daemon. */
const CARRIED_OUT: readonly [gesture: string, lines: readonly string[], stops: boolean][] = [
  ['stop, then disable', ['stop vmhostd', 'disable vmhostd'], true],
  ['disable, then stop', ['disable vmhostd', 'daemon-reload', 'stop vmhostd'], true],
  ['disable --now', ['disable --now vmhostd'], true],
  ['disable of a daemon that runs', ['disable vmhostd', 'restart vmhostd'], false],
  ['disable, and a re-execution of systemd', ['disable --now vmhostd', 'daemon-reexec'], true],
  ['preset', ['preset vmhostd', 'stop vmhostd'], true],
  ['mask --runtime', ['mask --runtime vmhostd', 'stop vmhostd'], true],
  ['disable and mask --runtime', ['disable vmhostd', 'mask --runtime --now vmhostd'], true],
  ['revert', ['revert vmhostd', 'stop vmhostd'], true],
  ['revert of a stopped and disabled daemon', ['disable --now vmhostd', 'revert vmhostd'], true],
  ['kill', ['disable vmhostd', 'kill --signal=KILL vmhostd'], false],
]

for (const [gesture, lines, stops] of CARRIED_OUT) {
  test(`guests live through: ${gesture}`, async () => {
    const earlier = await mainPid('vmhostd')
    for (const line of lines) await systemctl(...line.split(' '))
    if (!stops)
      await until('another daemon', async () =>
        [earlier, '0'].includes(await mainPid('vmhostd')) ? undefined : true,
      )
    await assertGuestsLive()
    assert.equal(await isStopped(), stops)
    // A disabled daemon reports that its own store lasts.
    if (!stops) await assertAdopted()
    await putBack()
  })
}

const MASKS = ['mask vmhostd', 'mask --now vmhostd', 'mask --force vmhostd'] as const

for (const mask of MASKS) {
  test(`${mask} is refused, whether the daemon runs or not, and changes nothing`, async () => {
    const refused = (error: Error & { stderr?: string }): true => {
      assert.match(error.stderr ?? '', /vmhostd\.service' already exists/)
      return true
    }
    await assert.rejects(systemctl(...mask.split(' ')), refused)
    assert.equal(await isStopped(), false)
    await assertGuestsLive()
    await systemctl('disable', '--now', 'vmhostd')
    await assert.rejects(systemctl(...mask.split(' ')), refused)
    await assertGuestsLive()
    await putBack()
  })
}

/** Runs `systemctl edit` with the text that an editor would leave. */
async function edit(content: string, how: string): Promise<void> {
  writeFileSync('/tmp/edited', content)
  await sh('sh', '-c', `systemctl edit ${how} --stdin vmhostd </tmp/edited`)
}

test('guests live through an edit of the whole unit and through a drop-in', async () => {
  const kept = await sh('cat', UNIT_FILE)
  try {
    const edited = kept.replace(/^RestartSec=.*$/m, 'RestartSec=1s')
    await edit(edited, '--full')
    await edit('[Service]\nNice=1\n', '--drop-in=nice.conf')
    await systemctl('disable', '--now', 'vmhostd')
    await assertGuestsLive()
    await systemctl('start', 'vmhostd')
    assert.equal(await unitProperty('vmhostd', 'RestartUSec'), '1s')
    await assertAdopted()
  } finally {
    await edit(kept, '--full')
    await putBack()
  }
})

test('a drop-in that takes room from the store is reported with each guest at risk, and the report ends with it', async () => {
  await edit('[Service]\nFileDescriptorStoreMax=1\n', '--drop-in=less.conf')
  const atRisk = await until('a fault', async () => {
    const vms = await Promise.all(Object.keys(GUESTS).map(getVm))
    const isAtRisk = ({ observed }: Vm): boolean =>
      observed.partial_faults?.some(({ code }) => code === 'console_unprotected') === true
    return vms.find(isAtRisk)
  })
  assert.match(atRisk.observed.error ?? '', /console/)
  await systemctl('revert', 'vmhostd')
  for (const id of Object.keys(GUESTS)) await settled(id, 'running')
  await putBack()
})

for (const disabled of [false, true]) {
  for (const removal of ['--remove', '--purge']) {
    test(`guests live through dpkg ${removal} of ${disabled ? 'a disabled' : 'an enabled'} daemon`, async () => {
      if (disabled) await systemctl('disable', 'vmhostd')
      await sh('dpkg', removal, 'vmhostd')
      assert.equal(await isStopped(), true)
      await assertGuestsLive()
      await systemctl('daemon-reexec')
      await assertGuestsLive()
      // Without its program the daemon is not started, instead of failing repeatedly.
      await systemctl('start', 'vmhostd')
      assert.equal(await unitProperty('vmhostd', 'ActiveState'), 'inactive')
      await assertGuestsLive()
      await installPackage()
      // A purge forgets that the daemon was disabled.
      assert.equal(await isStopped(), disabled && removal === '--remove')
      await putBack()
    })
  }
}
