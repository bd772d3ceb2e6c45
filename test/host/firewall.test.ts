import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { copyFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { run } from '../../src/host/exec/exec.ts'
import { NftFirewall } from '../../src/host/nftables/nft-firewall.ts'
import { firewallContract, guest, otherGuest } from '../contract/firewall.contract.ts'

const policy = { guestToGuest: false, hostServices: [], masquerade: [] }
const nft = (...args: string[]) => run(['nft', ...args])

/** Stands another program in for nft, in the mount namespace of this test file. */
async function replaceNft(program: string): Promise<() => Promise<void>> {
  const path = (await run(['which', 'nft'])).stdout.trim()
  await run(['mount', '--bind', program, path])
  return async () => {
    await run(['umount', path])
  }
}

/** Stands a shell script in for nft, in which "$nft" is the real one. */
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
    t.after(async () => {
      for (const daemon of daemons) daemon.close()
      await nft('flush', 'ruleset')
    })
    return {
      daemon: (guests) => {
        const daemon = new NftFirewall({ policy, guests })
        daemons.push(daemon)
        return daemon
      },
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
      touchOthers: async () => {
        await nft('add', 'table', 'inet', 'someone_else')
        await nft('delete', 'table', 'inet', 'someone_else')
      },
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
  'the table was put to sleep': ['add', 'table', 'inet', 'vmhostd', '{ flags dormant; }'],
}
for (const [what, command] of Object.entries(alterations)) {
  test(`nft firewall: it is seen when ${what}`, { skip }, async (t) => {
    const firewall = new NftFirewall({ policy, guests: [guest] })
    t.after(async () => {
      firewall.close()
      await nft('flush', 'ruleset')
    })
    await firewall.start()
    assert.deepEqual(await firewall.inspect(guest.device), { kind: 'intact', rule: guest })
    await nft(...command)
    assert.deepEqual(await firewall.inspect(guest.device), { kind: 'altered' })
    await firewall.ensureGuest(guest)
    assert.deepEqual(await firewall.inspect(guest.device), { kind: 'intact', rule: guest })
  })
}

test('nft firewall: a table that was altered and put right by hand is intact again', { skip }, async (t) => {
  const firewall = new NftFirewall({ policy, guests: [guest] })
  t.after(async () => {
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
    const firewall = new NftFirewall({ policy, guests: [guest] })
    t.after(async () => {
      firewall.close()
      await nft('flush', 'ruleset')
    })
    await firewall.start()
    const alter = '"$nft" insert rule inet vmhostd from_guest accept'
    const heal = await interceptNft(
      when === 'just before' ? `${alter}; "$nft" "$@"` : `"$nft" "$@"; ${alter}`,
    )
    await firewall.ensureGuest(otherGuest)
    await heal()
    assert.deepEqual(await firewall.inspect(guest.device), { kind: 'altered' })
    await firewall.ensureGuest(otherGuest)
    assert.deepEqual(await firewall.inspect(guest.device), { kind: 'intact', rule: guest })
  })
}

test('nft firewall: a host without nft is told so', { skip }, async (t) => {
  const firewall = new NftFirewall({ policy, guests: [] })
  const heal = await replaceNft('/etc/passwd')
  t.after(async () => {
    await heal()
    firewall.close()
  })
  await assert.rejects(
    firewall.ensureGuest(guest),
    (error) => error instanceof HostFault && error.code === 'tool_missing',
  )
})
