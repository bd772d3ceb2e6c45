import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { GuestDrops } from '../../src/core/world/counters.ts'
import type { GuestRule } from '../../src/core/world/network-state.ts'
import type { DeviceName, MacAddress } from '../../src/core/ids.ts'
import type { Firewall } from '../../src/ports/network.ts'
import { until } from './until.ts'

/** A host under test, and the changes that an administrator may make to its table. */
export type FirewallStage = {
  /** Starts the firewall of a new daemon that knows these guests from its store. */
  daemon(guests: readonly GuestRule[]): Firewall
  /** Stops the last of these daemons in order; the others count as killed. */
  stop(): void
  /** Devices whose guest is let through, as the host itself reports. */
  letThrough(): Promise<readonly string[]> | readonly string[]
  flush(): Promise<void> | void
  alter(): Promise<void> | void
  /** Sends packets of a guest that the table drops. Works once for each guest. */
  drop(device: DeviceName, drops: GuestDrops): Promise<void> | void
  /** Changes some other table. */
  touchOthers(): Promise<void> | void
  /** Makes the next change of a guest's own rules fail; the returned function removes the cause. */
  breakChanges(): Promise<() => Promise<void>> | (() => void)
}

export const guest: GuestRule = {
  device: 'vmt100001' as DeviceName,
  macAddress: '02:76:00:01:86:a1' as MacAddress,
  ipv4Address: '192.0.2.10',
  ipv6Address: '2001:db8::10',
}
export const otherGuest: GuestRule = {
  device: 'vmt100002' as DeviceName,
  macAddress: '02:76:00:01:86:a2' as MacAddress,
  ipv4Address: '192.0.2.11',
  ipv6Address: '2001:db8::11',
}

const inbound = [
  { protocol: 'tcp', ports: [{ first: 80, last: 80 }], sources: ['192.0.2.0/24', '2001:db8::/32'] },
  { protocol: 'icmp' },
] as const
const outbound = [
  { action: 'allow', protocol: 'udp', destinations: ['192.0.2.53/32'] },
  { action: 'deny', protocol: 'any' },
] as const
const noDrops = { spoofedPackets: 0, inboundPackets: 0 }

const isFault = (code: string) => (error: unknown) => error instanceof HostFault && error.code === code

/** Promises of every firewall; `set` makes a stage and registers its own clean-up. */
export function firewallContract(
  name: string,
  set: (t: TestContext) => Promise<FirewallStage> | FirewallStage,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = (what: string, body: (stage: FirewallStage) => Promise<void>): void => {
    test(`${name}: ${what}`, { skip: options.skip ?? false }, async (t) => body(await set(t)))
  }
  const { device } = guest

  promise('before the first write there is no table, and its future content is known', async (stage) => {
    const firewall = stage.daemon([guest])
    assert.deepEqual(await firewall.inspect(device), { kind: 'absent', rule: guest })
    assert.deepEqual(await firewall.inspect(otherGuest.device), { kind: 'absent' })
    assert.deepEqual(await stage.letThrough(), [])
  })

  promise('a guest is let through, together with all other guests', async (stage) => {
    const firewall = stage.daemon([otherGuest])
    await firewall.ensureGuest(guest)
    assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule: guest })
    assert.deepEqual(await firewall.inspect(otherGuest.device), { kind: 'intact', rule: otherGuest })
    assert.deepEqual(await stage.letThrough(), [device, otherGuest.device])
  })

  promise('a guest that was never let through has no rule', async (stage) => {
    const firewall = stage.daemon([])
    await firewall.ensureGuest(otherGuest)
    assert.deepEqual(await firewall.inspect(device), { kind: 'intact' })
  })

  promise('ensuring a guest can be repeated', async (stage) => {
    const firewall = stage.daemon([])
    await firewall.ensureGuest(guest)
    await firewall.ensureGuest(guest)
    assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule: guest })
  })

  promise('a changed rule replaces the old one, and may lose an address', async (stage) => {
    const { ipv6Address: _, ...ipv4Only } = guest
    const firewall = stage.daemon([guest])
    await firewall.ensureGuest(guest)
    for (const changed of [{ ...guest, ipv4Address: '192.0.2.20' }, ipv4Only]) {
      await firewall.ensureGuest(changed)
      assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule: changed })
    }
  })

  promise(
    'a removed guest is no longer let through, and the others still are; removal can be repeated',
    async (stage) => {
      const firewall = stage.daemon([guest, otherGuest])
      await firewall.ensureGuest(guest)
      await firewall.removeGuest(device)
      await firewall.removeGuest(device)
      assert.deepEqual(await firewall.inspect(device), { kind: 'intact' })
      assert.deepEqual(await stage.letThrough(), [otherGuest.device])
    },
  )

  for (const [how, end] of [
    ['stopped in order', (stage: FirewallStage) => stage.stop()],
    ['was killed', () => {}],
  ] as const)
    promise(`a guest that only a daemon knew which ${how} is a stranger, and goes`, async (stage) => {
      const earlier = stage.daemon([guest, otherGuest])
      await earlier.ensureGuest(guest)
      end(stage)
      const firewall = stage.daemon([otherGuest])
      await firewall.removeStrangers()
      assert.deepEqual(await stage.letThrough(), [otherGuest.device])
      await firewall.removeStrangers()
      assert.deepEqual(await firewall.inspect(otherGuest.device), { kind: 'intact', rule: otherGuest })
    })

  promise('without a table there are no strangers, and none is written', async (stage) => {
    await stage.daemon([guest]).removeStrangers()
    assert.deepEqual(await stage.letThrough(), [])
  })

  promise('a guest that is removed while there is no table does not come back with it', async (stage) => {
    const firewall = stage.daemon([guest, otherGuest])
    await firewall.removeGuest(device)
    assert.deepEqual(await firewall.inspect(device), { kind: 'absent' })
    assert.deepEqual(await stage.letThrough(), [])
    await firewall.ensureGuest(otherGuest)
    assert.deepEqual(await stage.letThrough(), [otherGuest.device])
  })

  promise('concurrent calls all come into force', async (stage) => {
    const rules = Array.from({ length: 20 }, (_, i) => ({
      device: `vmt${100_010 + i}` as DeviceName,
      macAddress: `02:76:00:00:00:${(i + 16).toString(16)}` as MacAddress,
      ipv4Address: `198.51.100.${i + 1}`,
    }))
    const gone = rules.filter((_, i) => i % 3 === 0)
    const firewall = stage.daemon(gone)
    const calls = rules.map(async (rule) => {
      if (gone.includes(rule)) await firewall.removeGuest(rule.device)
      else await firewall.ensureGuest(rule)
      const state = await firewall.inspect(rule.device)
      assert.deepEqual(state, gone.includes(rule) ? { kind: 'intact' } : { kind: 'intact', rule })
    })
    await Promise.all(calls)
    const kept = rules.filter((rule) => !gone.includes(rule)).map((rule) => rule.device)
    assert.deepEqual(await stage.letThrough(), kept)
  })

  promise('a table that somebody removed is absent, and is written again with all guests', async (stage) => {
    const firewall = stage.daemon([otherGuest])
    await firewall.ensureGuest(guest)
    await stage.flush()
    assert.deepEqual(await firewall.inspect(device), { kind: 'absent', rule: guest })
    await firewall.ensureGuest(guest)
    assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule: guest })
    assert.deepEqual(await stage.letThrough(), [device, otherGuest.device])
  })

  promise('a table that somebody changed is altered until it is written again', async (stage) => {
    const firewall = stage.daemon([])
    await firewall.ensureGuest(guest)
    await stage.alter()
    assert.deepEqual(await firewall.inspect(device), { kind: 'altered' })
    assert.deepEqual(await firewall.inspect(device), { kind: 'altered' })
    await firewall.ensureGuest(guest)
    assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule: guest })
  })

  promise('changes to other tables leave ours intact', async (stage) => {
    const firewall = stage.daemon([])
    await firewall.ensureGuest(guest)
    await stage.touchOthers()
    assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule: guest })
    await stage.touchOthers()
    await firewall.ensureGuest(otherGuest)
    assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule: guest })
    assert.deepEqual(await stage.letThrough(), [device, otherGuest.device])
  })

  promise('a new daemon recognises the table that the previous daemon left', async (stage) => {
    const firewall = stage.daemon([guest])
    const other = { ...otherGuest, inbound, ipv6Prefix: '2001:db8:1::/64' }
    await firewall.ensureGuest(other)
    stage.stop()
    const changed = { ...guest, ipv4Address: '192.0.2.20' }
    const successor = stage.daemon([changed, other])
    assert.deepEqual(await successor.inspect(device), { kind: 'intact', rule: guest })
    assert.deepEqual(await successor.inspect(otherGuest.device), {
      kind: 'intact',
      rule: other,
    })
    await successor.ensureGuest(changed)
    assert.deepEqual(await successor.inspect(device), { kind: 'intact', rule: changed })
    await stage.alter()
    assert.deepEqual(await successor.inspect(device), { kind: 'altered' })
  })

  promise('a new daemon sees that the table was altered since the previous daemon stopped', async (stage) => {
    await stage.daemon([]).ensureGuest(guest)
    stage.stop()
    await stage.alter()
    const successor = stage.daemon([guest])
    assert.deepEqual(await successor.inspect(device), { kind: 'altered' })
    await successor.ensureGuest(guest)
    assert.deepEqual(await successor.inspect(device), { kind: 'intact', rule: guest })
  })

  promise(
    'a daemon that starts after a killed one recognises no table before it writes one',
    async (stage) => {
      await stage.daemon([]).ensureGuest(guest)
      stage.stop()
      await stage.daemon([guest]).ensureGuest(otherGuest)
      for (const guests of [[guest, otherGuest], [guest]]) {
        const successor = stage.daemon(guests)
        assert.deepEqual(await successor.inspect(device), { kind: 'unverified' })
        await successor.ensureGuest(guest)
        assert.deepEqual(await successor.inspect(device), { kind: 'intact', rule: guest })
      }
    },
  )

  promise('a change that failed comes into force with the next call', async (stage) => {
    const firewall = stage.daemon([])
    await firewall.ensureGuest(guest)
    const heal = await stage.breakChanges()
    const rule = { ...otherGuest, inbound }
    await assert.rejects(firewall.ensureGuest(rule), isFault('firewall_failed'))
    await heal()
    await firewall.ensureGuest(guest)
    assert.deepEqual(await stage.letThrough(), [device, otherGuest.device])
    assert.deepEqual(await firewall.inspect(otherGuest.device), { kind: 'intact', rule })
  })

  promise(
    'what others may open to a guest, it to others, and its prefix are part of its rule',
    async (stage) => {
      const firewall = stage.daemon([])
      for (const rule of [
        { ...guest, inbound },
        { ...guest, inbound: [], outbound },
        { ...guest, outbound },
        { ...guest, ipv6Prefix: '2001:db8:1::/64', outbound },
        { ...guest, ipv6Prefix: '2001:db8:2:8000::/49' },
        guest,
        { ...guest, inbound },
      ]) {
        await firewall.ensureGuest(rule)
        assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule })
      }
      await stage.touchOthers()
      assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule: { ...guest, inbound } })
      await firewall.removeGuest(device)
      assert.deepEqual(await firewall.inspect(device), { kind: 'intact' })
    },
  )

  promise('a table that was removed comes back with the rules of all guests', async (stage) => {
    const rules = [
      { ...guest, inbound },
      { ...otherGuest, inbound: [], outbound, ipv6Prefix: '2001:db8:1::/64' },
    ] as const
    const firewall = stage.daemon([rules[1]])
    await firewall.ensureGuest(rules[0])
    await stage.flush()
    await firewall.ensureGuest(rules[0])
    for (const rule of rules) {
      assert.deepEqual(await firewall.inspect(rule.device), { kind: 'intact', rule })
    }
  })

  promise('dropped packets are counted for their guest', async (stage) => {
    const firewall = stage.daemon([otherGuest])
    await firewall.ensureGuest(guest)
    assert.deepEqual(await firewall.counters(device), noDrops)
    await stage.drop(device, { spoofedPackets: 3, inboundPackets: 5 })
    assert.deepEqual(await firewall.counters(device), { spoofedPackets: 3, inboundPackets: 5 })
    assert.deepEqual(await firewall.counters(otherGuest.device), noDrops)
  })

  promise(
    'counters continue over changes to the guest or to others, and into the next daemon',
    async (stage) => {
      const firewall = stage.daemon([guest])
      await firewall.ensureGuest(otherGuest)
      const drops = { spoofedPackets: 3, inboundPackets: 5 }
      await stage.drop(device, drops)
      await firewall.ensureGuest({ ...guest, ipv4Address: '192.0.2.20' })
      await firewall.removeGuest(otherGuest.device)
      assert.deepEqual(await firewall.counters(device), drops)
      await stage.alter()
      await firewall.ensureGuest(guest)
      assert.deepEqual(await firewall.counters(device), drops)
      const successor = stage.daemon([guest])
      await successor.ensureGuest(otherGuest)
      assert.deepEqual(await successor.counters(device), drops)
    },
  )

  promise('the counters of a guest end with it', async (stage) => {
    const firewall = stage.daemon([guest])
    await firewall.ensureGuest(otherGuest)
    await stage.drop(device, { spoofedPackets: 3, inboundPackets: 5 })
    await firewall.removeGuest(device)
    await assert.rejects(firewall.counters(device), isFault('firewall_failed'))
    await firewall.ensureGuest(guest)
    assert.deepEqual(await firewall.counters(device), noDrops)
  })

  promise('a table that is not as it was written gives no counters', async (stage) => {
    const firewall = stage.daemon([guest])
    await assert.rejects(firewall.counters(device), isFault('firewall_failed'))
    await firewall.ensureGuest(guest)
    await stage.alter()
    await assert.rejects(firewall.counters(device), isFault('firewall_failed'))
  })

  promise('a change or removal of the table by somebody else is noticed', async (stage) => {
    const firewall = stage.daemon([guest])
    const notices = { count: 0 }
    firewall.watch(() => notices.count++)
    await firewall.ensureGuest(otherGuest)
    for (const change of [() => stage.alter(), () => stage.flush()]) {
      const before = notices.count
      await change()
      await until(
        () => notices.count,
        (count) => count > before,
      )
      assert.notEqual((await firewall.inspect(device)).kind, 'intact')
      await firewall.ensureGuest(guest)
    }
  })

  promise('neither our own changes nor those to other tables are reported', async (stage) => {
    const firewall = stage.daemon([])
    const notices = { count: 0 }
    firewall.watch(() => notices.count++)
    await firewall.ensureGuest({ ...guest, inbound })
    await stage.touchOthers()
    await firewall.ensureGuest(otherGuest)
    await firewall.ensureGuest({ ...guest, inbound: [] })
    await firewall.removeGuest(otherGuest.device)
    // News come in order. Once the alteration is reported, all earlier changes have been judged.
    await stage.alter()
    await until(
      () => notices.count,
      (count) => count > 0,
    )
    assert.equal(notices.count, 1)
  })
}
