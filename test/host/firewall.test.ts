import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import type { InboundRule } from '../../src/core/desired.ts'
import { HostFault } from '../../src/core/errors.ts'
import { run } from './run.ts'
import { addressKeys } from '../../src/host/nftables/guest-elements.ts'
import { NftNetlink } from '../../src/host/nftables/nft-netlink.ts'
import { NftFirewall } from '../../src/host/nftables/nft-firewall.ts'
import { atEnd } from '../contract/at-end.ts'
import { firewallContract, guest, otherGuest } from '../contract/firewall.contract.ts'
import { closed, recordFile } from './firewall-stage.ts'

const policy = closed
const nft = (...args: string[]) => run(['nft', ...args])

/** asm-generic/errno.h. Node has no name for it. */
const ERESTART = 85

/** Makes transactions that do not touch our table. */
async function touchOthers(): Promise<void> {
  await nft('add', 'table', 'inet', 'someone_else')
  await nft('delete', 'table', 'inet', 'someone_else')
}

/** A guest that only `nft` can add, because it has rules of its own. */
const ruledGuest = { ...otherGuest, inbound: [] }

/** Replaces nft with another program, in the mount namespace of this test file. */
async function replaceNft(program: string): Promise<() => Promise<void>> {
  const path = (await run(['which', 'nft'])).stdout.trim()
  await run(['mount', '--bind', program, path])
  return async () => {
    await run(['umount', path])
  }
}

/** Replaces nft with a shell script, in which "$nft" is the real one. */
async function interceptNft(script: string): Promise<() => Promise<void>> {
  const real = '/run/netns/.nft'
  copyFileSync((await run(['which', 'nft'])).stdout.trim(), real)
  const path = '/run/netns/.nft-script'
  writeFileSync(path, `#!/bin/sh\nnft=${real}\n${script}\n`, { mode: 0o755 })
  return replaceNft(path)
}

firewallContract(
  'nft firewall',
  (t) => {
    const daemons: NftFirewall[] = []
    atEnd(t, async () => {
      for (const daemon of daemons) daemon.close()
      rmSync(recordFile, { force: true })
      await nft('flush', 'ruleset')
    })
    return {
      daemon: (guests) => {
        const daemon = new NftFirewall({ policy, guests, recordFile })
        daemons.push(daemon)
        return daemon
      },
      stop: () => daemons.pop()?.close(),
      letThrough: async () => {
        const { code, stdout } = await run(['nft', '-j', 'list', 'set', 'inet', 'vmhostd', 'guest_mac'], {
          okCodes: [0, 1],
        })
        const devices =
          code === 1 ? [] : [...stdout.matchAll(/"concat": \["(\w+)"/g)].map((match) => String(match[1]))
        return devices.toSorted((a, b) => (a < b ? -1 : 1))
      },
      flush: async () => {
        await nft('flush', 'ruleset')
      },
      alter: async () => {
        await nft('flush', 'chain', 'inet', 'vmhostd', 'from_guest')
      },
      drop: async (device, { spoofedPackets, inboundPackets }) => {
        for (const [set, packets] of [
          ['spoofed_drops', spoofedPackets],
          ['inbound_drops', inboundPackets],
        ])
          await nft(
            'add',
            'element',
            'inet',
            'vmhostd',
            `${set}`,
            `{ ${device} counter packets ${packets} bytes 1 }`,
          )
      },
      touchOthers,
      breakChanges: () => replaceNft('/bin/false'),
    }
  },
  { skip },
)

const alterations: Record<string, string[]> = {
  'an element was added': ['add', 'element', 'inet', 'vmhostd', 'guest_mac', '{ vmt9 . 02:00:00:00:00:09 }'],
  'an element was taken out': [
    'delete',
    'element',
    'inet',
    'vmhostd',
    'guest_ipv4',
    '{ vmt100001 . 192.0.2.10 }',
  ],
  'a rule was added': ['insert', 'rule', 'inet', 'vmhostd', 'from_guest', 'accept'],
  'a chain was added': [
    'add',
    'chain',
    'inet',
    'vmhostd',
    'mine',
    '{ type filter hook input priority -10; }',
  ],
  'a policy was changed': ['add', 'chain', 'inet', 'vmhostd', 'host_guard', '{ policy drop; }'],
  'a set was added': ['add', 'set', 'inet', 'vmhostd', 'mine', '{ type ipv4_addr; }'],
  'a counter was added': ['add', 'counter', 'inet', 'vmhostd', 'mine'],
  'a guest was let in': ['insert', 'rule', 'inet', 'vmhostd', 'to_vmt100002', 'accept'],
  'the chain of a guest was emptied': ['flush', 'chain', 'inet', 'vmhostd', 'to_vmt100002'],
  'a chain was given another name': ['rename', 'chain', 'inet', 'vmhostd', 'discovery', 'found'],
  'a guest was taken out of the map': ['delete', 'element', 'inet', 'vmhostd', 'inbound', '{ vmt100002 }'],
  'a guest was led elsewhere': [
    'delete element inet vmhostd inbound { vmt100002 }; add element inet vmhostd inbound { vmt100002 : accept }',
  ],
  'the table was put to sleep': ['add', 'table', 'inet', 'vmhostd', '{ flags dormant; }'],
}
for (const [what, command] of Object.entries(alterations)) {
  test(`nft firewall: an alteration is noticed when ${what}`, { skip }, async (t) => {
    const firewall = new NftFirewall({ policy, guests: [guest], recordFile })
    atEnd(t, async () => {
      firewall.close()
      await nft('flush', 'ruleset')
    })
    await firewall.start()
    await firewall.ensureGuest({ ...otherGuest, inbound: [{ protocol: 'udp' }] })
    await touchOthers()
    assert.deepEqual(await firewall.inspect(guest.device), { kind: 'intact', rule: guest })
    await nft(...command)
    assert.deepEqual(await firewall.inspect(guest.device), { kind: 'altered' })
    await firewall.ensureGuest(guest)
    assert.deepEqual(await firewall.inspect(guest.device), { kind: 'intact', rule: guest })
  })
}

test('nft firewall: a table that was altered and restored by hand is intact again', { skip }, async (t) => {
  const firewall = new NftFirewall({ policy, guests: [guest], recordFile })
  atEnd(t, async () => {
    firewall.close()
    await nft('flush', 'ruleset')
  })
  await firewall.start()
  await nft('add', 'element', 'inet', 'vmhostd', 'guest_mac', '{ vmt9 . 02:00:00:00:00:09 }')
  await nft('delete', 'element', 'inet', 'vmhostd', 'guest_mac', '{ vmt9 . 02:00:00:00:00:09 }')
  assert.deepEqual(await firewall.inspect(guest.device), { kind: 'intact', rule: guest })
})

for (const when of ['just before', 'just after']) {
  test(`nft firewall: an alteration ${when} a transaction of our own is not missed`, { skip }, async (t) => {
    const firewall = new NftFirewall({ policy, guests: [guest], recordFile })
    atEnd(t, async () => {
      firewall.close()
      await nft('flush', 'ruleset')
    })
    await firewall.start()
    const alter = '"$nft" insert rule inet vmhostd from_guest accept'
    const heal = await interceptNft(
      when === 'just before' ? `${alter}; "$nft" "$@"` : `"$nft" "$@"; ${alter}`,
    )
    await firewall.ensureGuest(ruledGuest)
    await heal()
    assert.deepEqual(await firewall.inspect(guest.device), { kind: 'altered' })
    await firewall.ensureGuest(ruledGuest)
    assert.deepEqual(await firewall.inspect(guest.device), { kind: 'intact', rule: guest })
  })
}

test(
  'nft firewall: the widest rules are accepted, and the chains of a removed guest are gone',
  { skip },
  async (t) => {
    const firewall = new NftFirewall({ policy, guests: [guest], recordFile })
    atEnd(t, async () => {
      firewall.close()
      await nft('flush', 'ruleset')
    })
    const chains = async (): Promise<readonly string[]> =>
      [...(await nft('list', 'table', 'inet', 'vmhostd')).stdout.matchAll(/chain (\w+)/g)].map((match) =>
        String(match[1]),
      )
    await firewall.start()
    const before = await chains()
    const ports = [
      { first: 0, last: 65_535 },
      { first: 1, last: 65_535 },
      ...Array.from({ length: 64 }, (_, i) => ({ first: 1000 * i, last: 1000 * i + 998 })),
    ]
    const sources = [
      ...['0.0.0.0/0', '::/0', '128.0.0.0/1', '8000::/1', '192.0.2.7/32', '2001:db8::7/128'],
      ...Array.from({ length: 64 }, (_, i) => `198.51.${i}.0/24`),
    ]
    const lists = [undefined, [], [0], [1], [2], [3, 4]].flatMap((picked) => [
      { ports: picked?.map((i) => ports[i] ?? assert.fail()) },
      { sources: picked?.map((i) => sources[i] ?? assert.fail()) },
    ])
    const inbound: readonly InboundRule[] = [
      ...(['tcp', 'udp', 'icmp', 'any'] as const).flatMap((protocol) =>
        lists.map((list) => JSON.parse(JSON.stringify({ protocol, ...list })) as InboundRule),
      ),
      { protocol: 'tcp', ports: ports.slice(2), sources: sources.slice(2) },
      { protocol: 'udp', ports: ports.slice(2), sources: sources.slice(2) },
    ]
    for (const rule of [
      { ...otherGuest, inbound },
      { ...otherGuest, inbound: inbound.toReversed() },
      { ...otherGuest, inbound: inbound.slice(1) },
    ]) {
      await firewall.ensureGuest(rule)
      await touchOthers()
      assert.deepEqual((await firewall.inspect(rule.device)).kind, 'intact')
    }
    assert.ok((await chains()).length > before.length)
    await firewall.removeGuest(otherGuest.device)
    assert.deepEqual(await chains(), before)
  },
)

test('nft firewall: watching ends with closing, and keeps no process alive', { skip }, async () => {
  const script = `
    import { NftFirewall } from '${import.meta.dirname}/../../src/host/nftables/nft-firewall.ts'
    const policy = ${JSON.stringify(policy)}
    for (const closes of [true, false]) {
      const firewall = new NftFirewall({ policy, guests: [], recordFile: '${recordFile}' })
      firewall.watch(() => console.log('noticed'))
      if (closes) firewall.close()
    }
    console.log('done')`
  const { stdout } = await run([process.execPath, '--input-type=module', '-e', script])
  assert.equal(stdout, 'done\n')
})

test('nft firewall: after a change that nft refused the table is written as a whole', { skip }, async (t) => {
  const firewall = new NftFirewall({ policy, guests: [guest], recordFile })
  await firewall.start()
  const heal = await interceptNft(
    `input=$(cat); echo "$input" | grep -q '^delete table' && echo "$input" | "$nft" "$@"`,
  )
  atEnd(t, async () => {
    await heal()
    firewall.close()
    await nft('flush', 'ruleset')
  })
  await assert.rejects(firewall.ensureGuest(ruledGuest), HostFault)
  await firewall.ensureGuest(ruledGuest)
  for (const rule of [guest, ruledGuest]) {
    assert.deepEqual(await firewall.inspect(rule.device), { kind: 'intact', rule })
  }
})

test(
  'nft firewall: elements are added by netlink only to the table that was last seen',
  { skip },
  async (t) => {
    const firewall = new NftFirewall({ policy, guests: [guest], recordFile })
    const netlink = new NftNetlink('vmhostd')
    atEnd(t, async () => {
      netlink.close()
      firewall.close()
      await nft('flush', 'ruleset')
    })
    await firewall.start()
    const letIn = (): number => netlink.elements('guest_mac').length
    const before = netlink.generation()
    await touchOthers()
    assert.throws(() => netlink.addElements(addressKeys([otherGuest]), before), { errno: -ERESTART })
    assert.equal(letIn(), 1)
    const after = netlink.generation()
    const unknown = new Map([...addressKeys([otherGuest]), ['no_such_set', [Buffer.alloc(16)]]])
    assert.throws(() => netlink.addElements(unknown, after), { code: 'ENOENT' })
    assert.equal(letIn(), 1)
    netlink.addElements(addressKeys([otherGuest]), after)
    assert.equal(letIn(), 2)
    assert.equal(netlink.generation(), after + 1)
  },
)

test('nft firewall: a guest without rules of its own comes without a start of nft', { skip }, async (t) => {
  const firewall = new NftFirewall({ policy, guests: [guest], recordFile })
  await firewall.start()
  const heal = await replaceNft('/bin/false')
  atEnd(t, async () => {
    await heal()
    firewall.close()
    await nft('flush', 'ruleset')
  })
  await firewall.ensureGuest(otherGuest)
  assert.deepEqual(await firewall.inspect(otherGuest.device), { kind: 'intact', rule: otherGuest })
})

test('nft firewall: a host without nft is reported', { skip }, async (t) => {
  const firewall = new NftFirewall({ policy, guests: [], recordFile })
  const heal = await replaceNft('/etc/passwd')
  atEnd(t, async () => {
    await heal()
    firewall.close()
  })
  await assert.rejects(
    firewall.ensureGuest(guest),
    (error) => error instanceof HostFault && error.code === 'tool_missing',
  )
})

test('a table with the most rules has more time to be written than another program', { skip }, async (t) => {
  const many = Array.from({ length: limits.firewallRulesMax }, (_, rule) => ({
    protocol: 'tcp' as const,
    sources: Array.from({ length: limits.ruleNetworksMax }, (__, at) => `10.0.${at}.${rule}/32`),
  }))
  const firewall = new NftFirewall({ policy, guests: [{ ...otherGuest, inbound: many }], recordFile })
  atEnd(t, () => run(['nft', 'flush', 'ruleset']))
  atEnd(t, () => firewall.close())
  const heal = await interceptNft(`sleep ${limits.toolMs / 1000 + 1}; exec "$nft" "$@"`)
  atEnd(t, heal)
  await firewall.start()
  assert.equal((await firewall.inspect(otherGuest.device)).kind, 'intact')
})
