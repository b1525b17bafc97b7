"""Benchmarks: run each as ``python -m benchmarks.<name>`` from the root of the project.

speed      : one EM pass and one small partial_fit, against rivals (benchmarks/rivals)
drop_in    : default fit against scikit-learn's default fit, on real data
real_data  : one online pass against ten batch iterations from the same start, on real data
defaults   : the table that eta0, beta, batch_size and the start were chosen from
distributed: rounds on a cluster of processes, their overhead and traffic
memory     : a pass over ten million rows of a memory-mapped file
suite      : the same passes for asv (`cd benchmarks && asv run`)
"""
