// The same act on many things.
const AT_ONCE = 4;

/**
 * @param {string[]} names
 * @param {(name: string) => Promise<unknown>} act
 * @param {(done: number) => void} [tell]
 * @returns {Promise<{ done: string[], failed: { name: string, error: Error }[] }>}
 */
export async function each(names, act, tell) {
  /** @type {string[]} */
  const done = [];
  /** @type {{ name: string, error: Error }[]} */
  const failed = [];
  const left = [...names];
  const worker = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      try {
        await act(name);
        done.push(name);
      } catch (error) {
        failed.push({ name, error: /** @type {Error} */ (error) });
      }
      tell?.(done.length + failed.length);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, names.length) }, worker));
  return { done, failed };
}
