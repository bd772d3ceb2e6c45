/** A guest saved and restored as on a host: in its unit's sandbox, from its pool, on its tap. */
import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { guestRuleOf } from '../../src/core/network/tap.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import type { DeviceName, MacAddress } from '../../src/core/ids.ts'
import { NftFirewall } from '../../src/host/nftables/nft-firewall.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { atEnd } from '../contract/at-end.ts'
import { restoredOf } from '../fakes/machine.ts'
import { until } from '../contract/until.ts'
import { skip } from './in-lab.ts'
import { BOOT_MS, id, stageOf, userId } from './sandboxed-vm-stage.ts'
import type { SandboxStage } from './sandboxed-vm-stage.ts'

const compute = { cpuMillicores: 1000, memoryMib: 128 }
const never = new AbortController().signal
const tap: TapSpec = {
  device: 'vmt700011' as DeviceName,
  vmId: id,
  userId,
  guestMac: '02:76:00:0a:ae:6b' as MacAddress,
  ipv4Address: '198.51.100.77',
}

type Page = { readonly boot: string; readonly timeMs: number }

/** Reads the guest's page: which boot of it answers, and the time on its own clock. */
async function page(): Promise<Page | undefined> {
  try {
    const signal = AbortSignal.timeout(2000)
    const answer = await fetch(`http://${tap.ipv4Address}/cgi-bin/index.cgi`, { signal })
    const text = await answer.text()
    const [, boot = ''] = /Boot <code>([0-9a-f-]{36})</.exec(text) ?? []
    const [, time = ''] = /<time>([^<]+)</.exec(text) ?? []
    return boot === '' ? undefined : { boot, timeMs: Date.parse(time) }
  } catch {
    return undefined
  }
}

/** The table exists from the first daemon of this host on, and blocks guests without a rule. */
const policy = {
  guestToGuest: false,
  inboundDefault: 'accept',
  hostServices: [],
  masquerade: [],
  connectionsMax: 1000,
} as const

async function networked(t: TestContext): Promise<SandboxStage> {
  const firewall = new NftFirewall({ policy, guests: [], recordFile: '/run/vmhostd-test-firewall.json' })
  await firewall.ensureGuest(guestRuleOf(tap))
  atEnd(t, () => firewall.removeGuest(tap.device))
  const taps = new RoutedTaps({ storeId: 'test-store' })
  await taps.ensure(tap)
  atEnd(t, () => taps.remove(tap.device, id))
  return stageOf(t)
}

async function saved({ monitor, savedStates, units }: SandboxStage): Promise<void> {
  await savedStates.ensureMemoryFile(id, userId)
  const saving = await monitor.save(restoredOf(id, savedStates.paths(id).writing), never)
  await savedStates.publish(id, { savedAtMs: Date.now(), monitor: saving, compute }, never)
  await units.ensureStopped(id, never)
}

test(
  'a guest continues from the pool in another unit, on its tap, and its clock is right',
  { skip },
  async (t) => {
    const stage = await networked(t)
    const { monitor, savedStates, units, start, said } = stage
    await start({ tap })
    await until(said, (text) => text.includes('demo guest ready'), BOOT_MS)
    const before = await until(page, (seen) => seen !== undefined, BOOT_MS)
    await monitor.ensurePaused(id, never)
    await saved(stage)
    assert.equal((await units.inspect(id)).kind, 'absent')
    const state = await savedStates.inspect(id, await monitor.installed())
    assert.ok(state.kind === 'present')
    t.diagnostic(`${state.sizeMib} of ${state.memoryMib} MiB were written`)
    // Longer than the possible error of a clock that is set in whole seconds.
    const asleepMs = 5000
    await delay(asleepMs)

    await start({ tap, restorePath: savedStates.paths(id).published })
    const startedAt = performance.now()
    await monitor.ensureRestored(restoredOf(id, savedStates.paths(id).published), never)
    const restoredMs = performance.now() - startedAt
    await savedStates.remove(id)
    await monitor.ensureRunning(id, never)
    const runsMs = performance.now() - startedAt
    t.diagnostic(
      `restored ${restoredMs.toFixed(1)} ms after its unit was active, runs after ${runsMs.toFixed(1)} ms`,
    )
    const behind = await until(page, (seen) => seen !== undefined, BOOT_MS)
    assert.equal(behind?.boot, before?.boot, 'the guest is another')
    assert.ok(
      Date.now() - (behind?.timeMs ?? 0) > asleepMs - 1000,
      'the guest knows the time although the daemon did not set it',
    )
    monitor.agent.setGuestTime(id)
    const after = await until(page, (seen) => seen !== undefined && Date.now() - seen.timeMs < 2500, BOOT_MS)
    assert.equal(after?.boot, before?.boot)
  },
)

test(
  'a guest without a listening agent is not disturbed by the time, and not frozen',
  { skip },
  async (t) => {
    const { monitor, start, said, ask } = await stageOf(t)
    await start()
    await until(said, (text) => text.includes('demo guest ready'), BOOT_MS)
    const kill = 'until kill $(pidof demo-agent) 2>/dev/null; do sleep 0.1; done'
    // Its child processes hold the port too, for a moment.
    const closed = "while ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q '/dev/vport'; do sleep 0.1; done"
    assert.equal(await ask(`${kill}; ${closed}; echo gone`), 'gone')
    for (const _ of [1, 2, 3]) monitor.agent.setGuestTime(id)
    const beganAt = performance.now()
    assert.equal(await monitor.agent.freeze(id, never), 'none')
    t.diagnostic(
      `it was known that the guest has no agent after ${(performance.now() - beganAt).toFixed(1)} ms`,
    )
    assert.equal((await monitor.inspect(id)).kind, 'running')
    assert.equal(await ask('echo alive'), 'alive')
  },
)
