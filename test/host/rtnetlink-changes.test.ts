/** Changes over rtnetlink leave what the commands of ip leave, and take away what those made. */
import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { run } from './run.ts'
import { Rtnetlink } from '../../src/host/netlink/rtnetlink.ts'
import { atEnd } from '../contract/at-end.ts'
import type { LinkChange } from '../../src/host/netlink/link-change.ts'

const ip = async (...args: string[]): Promise<string> => (await run(['ip', ...args])).stdout
const ipBatch = (lines: readonly string[]): Promise<unknown> =>
  run(['ip', '-batch', '-'], { input: `${lines.join('\n')}\n` })

const mac = '02:76:00:01:86:a1'
/** Each change with its command, and the command and the change that undo it. */
const pairs: readonly {
  readonly command: string
  readonly change: LinkChange
  readonly undoCommand: string
  readonly undo: LinkChange
}[] = [
  ...(['169.254.0.1/32', 'fe80::1/64'] as const).map((address) => ({
    command: `addr add ${address} dev tap7 scope link${address.includes(':') ? ' nodad' : ''}`,
    change: { kind: 'add-address' as const, address },
    undoCommand: `addr del ${address} dev tap7`,
    undo: { kind: 'remove-address' as const, address },
  })),
  ...['192.0.2.10/32', '2001:db8::10/128', '2001:db8:1::/64 via 2001:db8::10'].map((route) => ({
    command: `route add ${route} dev tap7`,
    change: { kind: 'add-route' as const, route },
    undoCommand: `route del ${route} dev tap7`,
    undo: { kind: 'remove-route' as const, route },
  })),
  ...['192.0.2.10', '2001:db8::10'].map((address) => ({
    command: `neigh replace ${address} lladdr ${mac} dev tap7 nud permanent`,
    change: { kind: 'set-neighbour' as const, address, macAddress: mac },
    undoCommand: `neigh del ${address} dev tap7`,
    undo: { kind: 'remove-neighbour' as const, address },
  })),
]
const undoing = pairs.toReversed()

/** Returns links on a host with a tap `tap7` that is up, and a link `pair0` beside it. */
async function stage(t: TestContext): Promise<{ links: Rtnetlink; index: number }> {
  const links = new Rtnetlink()
  atEnd(t, () => links.close())
  await ipBatch(['tuntap add dev tap7 mode tap', 'link add pair0 type veth peer name pair1'])
  for (const name of ['tap7', 'pair0']) atEnd(t, () => run(['ip', 'link', 'del', name]))
  const index = indexOf(links, 'tap7')
  links.change(index, { kind: 'raise' })
  links.change(indexOf(links, 'pair0'), { kind: 'raise' })
  assert.match(await ip('link', 'show', 'dev', 'tap7'), /[<,]UP[,>]/)
  return { links, index }
}

const indexOf = (links: Rtnetlink, name: string): number =>
  links.link(name)?.index ?? assert.fail(`no link ${name}`)

/** Everything that ip shows of addresses, routes in all tables, and permanent neighbours, each in one order. */
async function shown(): Promise<readonly string[]> {
  const texts = await Promise.all([
    ip('-d', '-o', 'addr', 'show', 'dev', 'tap7'),
    ip('-d', '-o', '-4', 'route', 'show', 'table', 'all'),
    ip('-d', '-o', '-6', 'route', 'show', 'table', 'all'),
    ip('-d', 'neigh', 'show', 'nud', 'permanent'),
  ])
  return texts
    .flatMap((text) => text.split('\n').map((line) => line.trim()))
    .filter((line) => line !== '')
    .toSorted()
}

test('changes leave what ip leaves, and each way undoes the other', { skip }, async (t) => {
  const { links, index } = await stage(t)
  const commands = pairs.map(({ command }) => command)
  const undoCommands = undoing.map(({ undoCommand }) => undoCommand)
  // With its first address, the link also gets a multicast route from the kernel, which stays.
  await ipBatch([...commands, ...undoCommands])
  const before = await shown()
  await ipBatch(commands)
  const byIp = await shown()
  assert.ok(byIp.length >= before.length + pairs.length)
  for (const { undo } of undoing) links.change(index, undo)
  assert.deepEqual(await shown(), before)
  for (const { change } of pairs) links.change(index, change)
  assert.deepEqual(await shown(), byIp)
  await ipBatch(undoCommands)
  assert.deepEqual(await shown(), before)
})

test('an address or route that exists is EEXIST and stays, also on another link', { skip }, async (t) => {
  const { links, index } = await stage(t)
  const other = indexOf(links, 'pair0')
  for (const { change } of pairs) links.change(other, change)
  const before = await shown()
  for (const { change } of pairs) {
    if (change.kind === 'set-neighbour') continue
    assert.throws(() => links.change(other, change), { code: 'EEXIST' }, change.kind)
  }
  for (const route of ['192.0.2.10/32', '2001:db8::10/128']) {
    assert.throws(() => links.change(index, { kind: 'add-route', route }), {
      code: 'EEXIST',
      message: `netlink: add route ${route} to link ${index}: EEXIST`,
    })
  }
  assert.deepEqual(await shown(), before)
})

test(
  'a neighbour that the kernel learned, or that was another, becomes the one that is set',
  { skip },
  async (t) => {
    const { links, index } = await stage(t)
    await ipBatch([
      'neigh add 192.0.2.10 lladdr 02:76:00:00:00:0a dev tap7 nud stale',
      'neigh add 2001:db8::10 lladdr 02:76:00:00:00:0a dev tap7 nud permanent',
    ])
    const wanted = ['192.0.2.10', '2001:db8::10'].map((address) => ({ address, macAddress: mac }))
    for (const neighbour of wanted) links.change(index, { kind: 'set-neighbour', ...neighbour })
    assert.deepEqual(links.permanentNeighbours(index), wanted)
  },
)

test('removing what is gone fails and says so', { skip }, async (t) => {
  const { links, index } = await stage(t)
  const codes = { 'remove-address': 'EADDRNOTAVAIL', 'remove-route': 'ESRCH', 'remove-neighbour': 'ENOENT' }
  for (const { undo } of pairs) {
    const code = codes[undo.kind as keyof typeof codes]
    assert.throws(() => links.change(index, undo), { code }, undo.kind)
  }
})

test('an addition to a link that is gone is ENODEV', { skip }, async (t) => {
  const { links } = await stage(t)
  for (const { change } of [...pairs, { change: { kind: 'raise' } as const }]) {
    assert.throws(() => links.change(99_999, change), { code: 'ENODEV' }, change.kind)
  }
})
