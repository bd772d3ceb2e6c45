import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { GuestDrops } from '../../src/core/network/counters.ts'
import type { GuestRule } from '../../src/core/network/guest-rule.ts'
import type { DeviceName, MacAddress } from '../../src/core/vm/ids.ts'
import type { Firewall } from '../../src/ports/network.ts'
import { until } from './until.ts'

/** A host under test, and what an administrator may do to its table. */
export type FirewallStage = {
  /** The firewall of a daemon that starts now and knows these guests from its store. */
  daemon(guests: readonly GuestRule[]): Firewall
  /** Ends the last of these daemons in order; the others are as good as killed. */
  stop(): void
  /** Devices whose guest is let through, as the host itself tells. */
  letThrough(): Promise<readonly string[]> | readonly string[]
  flush(): Promise<void> | void
  alter(): Promise<void> | void
  /** Packets of a guest that the table drops. Once for each guest. */
  drop(device: DeviceName, drops: GuestDrops): Promise<void> | void
  /** A change to some other table. */
  touchOthers(): Promise<void> | void
  /** Makes the next change of the table fail; the returned function heals it. */
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
const noDrops = { spoofedPackets: 0, inboundPackets: 0 }

const isFault = (code: string) => (error: unknown) => error instanceof HostFault && error.code === code

/** What every firewall promises; `set` makes a stage and registers its own cleaning up. */
export function firewallContract(
  name: string,
  set: (t: TestContext) => Promise<FirewallStage> | FirewallStage,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = (what: string, body: (stage: FirewallStage) => Promise<void>): void => {
    test(`${name}: ${what}`, { skip: options.skip ?? false }, async (t) => body(await set(t)))
  }
  const { device } = guest

  promise(
    'before anything was written there is no table, and it is known what will be in it',
    async (stage) => {
      const firewall = stage.daemon([guest])
      assert.deepEqual(await firewall.inspect(device), { kind: 'absent', rule: guest })
      assert.deepEqual(await firewall.inspect(otherGuest.device), { kind: 'absent' })
      assert.deepEqual(await stage.letThrough(), [])
    },
  )

  promise('a guest is let through, with all the others that there are', async (stage) => {
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

  promise('ensuring can be repeated', async (stage) => {
    const firewall = stage.daemon([])
    await firewall.ensureGuest(guest)
    await firewall.ensureGuest(guest)
    assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule: guest })
  })

  promise('a changed rule replaces the old, and may lose an address', async (stage) => {
    const { ipv6Address: _, ...ipv4Only } = guest
    const firewall = stage.daemon([guest])
    await firewall.ensureGuest(guest)
    for (const changed of [{ ...guest, ipv4Address: '192.0.2.20' }, ipv4Only]) {
      await firewall.ensureGuest(changed)
      assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule: changed })
    }
  })

  promise(
    'a removed guest is no longer let through, and the others are; removing can be repeated',
    async (stage) => {
      const firewall = stage.daemon([guest, otherGuest])
      await firewall.ensureGuest(guest)
      await firewall.removeGuest(device)
      await firewall.removeGuest(device)
      assert.deepEqual(await firewall.inspect(device), { kind: 'intact' })
      assert.deepEqual(await stage.letThrough(), [otherGuest.device])
    },
  )

  promise('a guest that is removed while there is no table does not come back with it', async (stage) => {
    const firewall = stage.daemon([guest, otherGuest])
    await firewall.removeGuest(device)
    assert.deepEqual(await firewall.inspect(device), { kind: 'absent' })
    assert.deepEqual(await stage.letThrough(), [])
    await firewall.ensureGuest(otherGuest)
    assert.deepEqual(await stage.letThrough(), [otherGuest.device])
  })

  promise('calls at the same time all come into force', async (stage) => {
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

  promise(
    'a table that somebody took away is absent, and is written again with all guests',
    async (stage) => {
      const firewall = stage.daemon([otherGuest])
      await firewall.ensureGuest(guest)
      await stage.flush()
      assert.deepEqual(await firewall.inspect(device), { kind: 'absent', rule: guest })
      await firewall.ensureGuest(guest)
      assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule: guest })
      assert.deepEqual(await stage.letThrough(), [device, otherGuest.device])
    },
  )

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

  promise('a daemon that starts knows the table again that the one before left', async (stage) => {
    const firewall = stage.daemon([guest])
    await firewall.ensureGuest({ ...otherGuest, inbound })
    stage.stop()
    const changed = { ...guest, ipv4Address: '192.0.2.20' }
    const successor = stage.daemon([changed, { ...otherGuest, inbound }])
    assert.deepEqual(await successor.inspect(device), { kind: 'intact', rule: guest })
    assert.deepEqual(await successor.inspect(otherGuest.device), {
      kind: 'intact',
      rule: { ...otherGuest, inbound },
    })
    await successor.ensureGuest(changed)
    assert.deepEqual(await successor.inspect(device), { kind: 'intact', rule: changed })
    await stage.alter()
    assert.deepEqual(await successor.inspect(device), { kind: 'altered' })
  })

  promise(
    'a daemon that starts sees that the table was altered since the one before stopped',
    async (stage) => {
      await stage.daemon([]).ensureGuest(guest)
      stage.stop()
      await stage.alter()
      const successor = stage.daemon([guest])
      assert.deepEqual(await successor.inspect(device), { kind: 'altered' })
      await successor.ensureGuest(guest)
      assert.deepEqual(await successor.inspect(device), { kind: 'intact', rule: guest })
    },
  )

  promise(
    'a daemon that starts after one that was killed knows no table before it wrote it',
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

  promise('what could not be brought into force comes with the next call', async (stage) => {
    const firewall = stage.daemon([])
    await firewall.ensureGuest(guest)
    const heal = await stage.breakChanges()
    await assert.rejects(firewall.ensureGuest(otherGuest), isFault('firewall_failed'))
    await heal()
    await firewall.ensureGuest(guest)
    assert.deepEqual(await stage.letThrough(), [device, otherGuest.device])
    assert.deepEqual(await firewall.inspect(otherGuest.device), { kind: 'intact', rule: otherGuest })
  })

  promise('what others may open to a guest is part of its rule, and may be all or nothing', async (stage) => {
    const firewall = stage.daemon([])
    for (const rule of [{ ...guest, inbound }, { ...guest, inbound: [] }, guest, { ...guest, inbound }]) {
      await firewall.ensureGuest(rule)
      assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule })
    }
    await stage.touchOthers()
    assert.deepEqual(await firewall.inspect(device), { kind: 'intact', rule: { ...guest, inbound } })
    await firewall.removeGuest(device)
    assert.deepEqual(await firewall.inspect(device), { kind: 'intact' })
  })

  promise('a table that was taken away comes back with the rules of all guests', async (stage) => {
    const rules = [
      { ...guest, inbound },
      { ...otherGuest, inbound: [] },
    ] as const
    const firewall = stage.daemon([rules[1]])
    await firewall.ensureGuest(rules[0])
    await stage.flush()
    await firewall.ensureGuest(rules[0])
    for (const rule of rules) {
      assert.deepEqual(await firewall.inspect(rule.device), { kind: 'intact', rule })
    }
  })

  promise('what is dropped is counted for its guest', async (stage) => {
    const firewall = stage.daemon([otherGuest])
    await firewall.ensureGuest(guest)
    assert.deepEqual(await firewall.counters(device), noDrops)
    await stage.drop(device, { spoofedPackets: 3, inboundPackets: 5 })
    assert.deepEqual(await firewall.counters(device), { spoofedPackets: 3, inboundPackets: 5 })
    assert.deepEqual(await firewall.counters(otherGuest.device), noDrops)
  })

  promise('counters go on over changes, to the guest or to others, and to the next daemon', async (stage) => {
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
  })

  promise('the counters of a guest end with it', async (stage) => {
    const firewall = stage.daemon([guest])
    await firewall.ensureGuest(otherGuest)
    await stage.drop(device, { spoofedPackets: 3, inboundPackets: 5 })
    await firewall.removeGuest(device)
    await assert.rejects(firewall.counters(device), isFault('firewall_failed'))
    await firewall.ensureGuest(guest)
    assert.deepEqual(await firewall.counters(device), noDrops)
  })

  promise('of a table that is not as it was written, no figure is told', async (stage) => {
    const firewall = stage.daemon([guest])
    await assert.rejects(firewall.counters(device), isFault('firewall_failed'))
    await firewall.ensureGuest(guest)
    await stage.alter()
    await assert.rejects(firewall.counters(device), isFault('firewall_failed'))
  })

  promise('somebody who changes the table or takes it away is noticed', async (stage) => {
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

  promise('neither changes of our own nor those to other tables are news', async (stage) => {
    const firewall = stage.daemon([])
    const notices = { count: 0 }
    firewall.watch(() => notices.count++)
    await firewall.ensureGuest({ ...guest, inbound })
    await stage.touchOthers()
    await firewall.ensureGuest(otherGuest)
    await firewall.ensureGuest({ ...guest, inbound: [] })
    await firewall.removeGuest(otherGuest.device)
    // News come in order: by that of the alteration all before it have been judged.
    await stage.alter()
    await until(
      () => notices.count,
      (count) => count > 0,
    )
    assert.equal(notices.count, 1)
  })
}
