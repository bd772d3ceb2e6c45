/** One sample in the text that Prometheus reads. A histogram has several, with names of their own. */
export type ReadSample = {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Reads the samples of a text without escapes in its label values. Throws if a line is none. */
export function samplesIn(text: string): readonly ReadSample[] {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return lines.map((line) => {
    const [, name = '', labels = '', value = ''] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
    if (name === '') throw new Error(`this is not a sample: ${line}`)
    const pairs = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, one]) => [key, one])
    return { name, labels: Object.fromEntries(pairs), value: Number(value) }
  })
}

/** Returns the value of the sample with exactly these labels; undefined if there is none. */
export const valueIn = (
  text: string,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined =>
  samplesIn(text).find(
    (sample) =>
      sample.name === name &&
      Object.keys(sample.labels).length === Object.keys(labels).length &&
      Object.entries(labels).every(([key, one]) => sample.labels[key] === one),
  )?.value

/** Returns the series of a VM, with a histogram counted once. */
export const seriesOf = (text: string, vm: string): readonly ReadSample[] =>
  samplesIn(text).filter(({ name, labels }) => labels['vm'] === vm && !/_(bucket|sum)$/.test(name))
