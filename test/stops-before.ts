/**
 * Stops something that may wait, and returns whether it stopped before `end` ended what it may wait for. `settle` lets
 * it come as far as it can; `stop` begins the stop.
 */
export async function stopsBefore(
  stop: () => Promise<unknown>,
  { settle, end }: { readonly settle: () => Promise<unknown>; readonly end: () => void },
): Promise<boolean> {
  let isStopped = false
  const stopping = stop().then(() => (isStopped = true))
  await settle()
  const isEarly = isStopped
  end()
  await stopping
  return isEarly
}
